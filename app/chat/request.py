"""A chat request: the client's bytes, and what must be known of them to send them on."""

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

from app.chat.stepwise import PairsHook, in_steps
from app.errors import (
    BadRequest,
    InvalidEncoding,
    InvalidJson,
    InvalidJsonRoot,
    InvalidNumber,
    InvalidValue,
    TooComplex,
    TooDeep,
)

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_DIGITS = 1_000
LONG_INTEGER = 2.0**63
STEPWISE_BYTES = 4 * 1024 * 1024
_SLICE_BYTES = 256 * 1024
_MAX_LOOKS = 100

# What is decided by these keys must be what the upstream reads: twice the same key is settled here.
_DECISIVE_KEYS = ("model", "messages", "stream", "n")
_ESCAPED_LETTER = re.compile(rb"\\u00(?:6[14-7c-fC-F]|7[2-4])")  # any of those keys' letters


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How large a request's structure may be."""

    max_depth: int
    max_elements: int
    max_messages: int
    max_choices: int


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request that was read once; `body` is what the upstream gets when nothing is changed."""

    body: bytes
    fields: dict[str, Any]
    has_lone_surrogates: bool = False
    """Whether a text is cut through a character; nobody looks for it in the largest bodies."""

    @property
    def model(self) -> str:
        """The model's name, empty if the client sent none."""
        model = self.fields.get("model")
        return model if isinstance(model, str) else ""

    @property
    def streams(self) -> bool:
        """Whether the client asked for a stream: only JSON's true does."""
        return self.fields.get("stream") is True


def read_request(body: bytes, limits: RequestLimits) -> ChatRequest:
    """Return the request, or raise the BadRequest that says why it cannot be read."""
    text = body.removeprefix(BYTE_ORDER_MARK)
    _check_elements(text, limits.max_elements)
    if len(text) > STEPWISE_BYTES:
        return _read_stepwise(text, body, limits)
    fields, has_surrogates = _parse(text)
    _check_structure(fields, limits)
    if not _is_written_as_here(text, fields):
        if _holds_long_integers(fields.get("messages")):
            fields = _parse_leniently(text)
        if _may_repeat_a_key(text, fields):
            fields, body = _with_single_keys(text, fields, body)
    return ChatRequest(body, fields, has_surrogates)


def _read_stepwise(text: bytes, body: bytes, limits: RequestLimits) -> ChatRequest:
    """Read a large body without one long step; the parser for small ones would be one."""
    fields, is_settled = _settled(text, stepwise=True)
    _check_structure(fields, limits)
    return ChatRequest(_dumped(fields) if is_settled else body, fields)


def _check_structure(fields: object, limits: RequestLimits) -> None:
    if not isinstance(fields, dict):
        raise InvalidJsonRoot
    if is_deeper_than(limits.max_depth, fields):
        raise TooDeep(f"The body is nested deeper than {limits.max_depth} levels.")
    _check_counts(fields, limits)


def is_deeper_than(limit: int, value: object) -> bool:
    """Tell whether lists and objects are nested more than `limit` deep."""
    level: list[Any] = [value]
    for _ in range(limit):
        level = [
            child
            for node in level
            for child in (node.values() if type(node) is dict else node)
            if type(child) is dict or type(child) is list
        ]
        if not level:
            return False
    return True


def _is_written_as_here(text: bytes, fields: dict[str, Any]) -> bool:
    """Tell whether the request, written again, is the same: then no key and no digit was lost."""
    looks_compact = b'": ' not in text[:64]
    return looks_compact and _written(fields) == text


def _holds_long_integers(messages: object) -> bool:
    """Tell whether a number in the messages may have been an integer too long for orjson.

    It makes floats of them; a message that is rewritten must keep every digit.
    """
    nodes: list[Any] = [messages] if type(messages) is list else []
    for node in nodes:
        for child in node.values() if type(node) is dict else node:
            kind = type(child)
            if kind is dict or kind is list:
                nodes.append(child)
            elif kind is float and abs(child) >= LONG_INTEGER:
                return True
    return False


def _check_elements(text: bytes, max_elements: int) -> None:
    """Count by slices, so that a body made of nothing else is refused at its first megabytes."""
    if len(text) <= max_elements:
        return
    elements = 0
    for start in range(0, len(text), _SLICE_BYTES):
        elements += _elements_in(text[start : start + _SLICE_BYTES])
        if elements > max_elements:
            raise TooComplex(f"The body has more than {max_elements} elements.")


def _elements_in(text: bytes) -> int:
    """Count the marks: `replace` leaps from one to the next, `count` looks at every byte."""
    return sum(len(text) - len(text.replace(mark, b"")) for mark in (b"{", b"[", b","))


def _check_counts(fields: dict[str, Any], limits: RequestLimits) -> None:
    messages = fields.get("messages")
    if isinstance(messages, list) and len(messages) > limits.max_messages:
        raise InvalidValue(f"At most {limits.max_messages} messages are allowed.", param="messages")
    choices = fields.get("n")
    if isinstance(choices, int | float) and choices > limits.max_choices:
        raise InvalidValue(f"At most {limits.max_choices} choices are allowed.", param="n")


def _parse(text: bytes) -> tuple[Any, bool]:
    """Parse by orjson, or what it refuses by the standard library; tell of lone surrogates."""
    try:
        return orjson.loads(text), False
    except orjson.JSONDecodeError as error:
        return _parse_leniently(text), "surrogate" in error.msg


def _parse_leniently(text: bytes, root: PairsHook | None = None, *, stepwise: bool = False) -> Any:
    """Accept lone surrogates and long integers; refuse NaN, infinities and endless digits."""
    if b"\0" in text[:4]:
        raise InvalidEncoding  # UTF-16 or UTF-32, told by the zeros beside the first character
    decoder: Any = json.JSONDecoder(
        parse_constant=_refuse_number,
        parse_float=_finite,
        parse_int=_bounded,
        object_pairs_hook=None if stepwise else root,
    )
    if stepwise:
        decoder.scan_once = in_steps(decoder.scan_once, root)
    try:
        return decoder.decode(text.decode("utf-8"))
    except BadRequest:
        raise
    except UnicodeDecodeError as error:
        raise InvalidEncoding(f"The body is not UTF-8 at byte {error.start}.") from None
    except RecursionError:
        raise TooDeep from None
    except json.JSONDecodeError as error:
        raise InvalidJson(f"The body is not valid JSON at character {error.pos}.") from None


def _refuse_number(_: str) -> NoReturn:
    raise InvalidNumber


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise InvalidNumber
    return number


def _bounded(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise InvalidNumber
    return int(digits)


def _may_repeat_a_key(text: bytes, fields: dict[str, Any]) -> bool:
    """Tell cheaply whether a decisive key could stand twice in the request.

    One that stands in the text once cannot, unless another hides behind escaped letters. Neither
    can one that stands as often in the parsed request, written again: then nothing was lost.
    """
    if _hides_letters(text):
        return True
    keys = [b'"%b"' % key.encode() for key in _DECISIVE_KEYS if key in fields]
    several = [key for key in keys if _may_stand_twice(key, text)]
    if not several:
        return False
    written = _written(fields)
    return any(text.count(key) != written.count(key) for key in several)


def _may_stand_twice(key: bytes, text: bytes) -> bool:
    """Look for a key, from behind as Python is twice as fast there, and not without end.

    Behind a backslash it is no key, but how a text ends that speaks of one.
    """
    place = len(text)
    is_seen = False
    for _ in range(_MAX_LOOKS):
        place = text.rfind(key, 0, place)
        if place < 0:
            return False
        if text[place - 1 : place] != b"\\":
            if is_seen:
                return True
            is_seen = True
    return True


def _hides_letters(text: bytes) -> bool:
    """Tell whether a letter of a decisive key is escaped; the pattern alone takes its time."""
    if text.rfind(b"\\u00") < 0:
        return False
    may_hide = any(text.rfind(start) >= 0 for start in (b"\\u006", b"\\u007"))
    return may_hide and _ESCAPED_LETTER.search(text) is not None


def _written(fields: dict[str, Any]) -> bytes:
    """Write a request as most clients do, to nothing if it has what orjson does not write."""
    try:
        return orjson.dumps(fields)
    except orjson.JSONEncodeError:
        return b""


def _with_single_keys(
    text: bytes, fields: dict[str, Any], body: bytes
) -> tuple[dict[str, Any], bytes]:
    """Write the request anew from its last values when a decisive key stands twice in it."""
    exact, is_settled = _settled(text)
    return (exact, _dumped(exact)) if is_settled else (fields, body)


def _settled(text: bytes, *, stepwise: bool = False) -> tuple[Any, bool]:
    """Return the request by its last values, and whether a decisive key stood twice."""
    names: list[str] = []

    def remember(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names[:] = [name for name, _ in pairs]
        return dict(pairs)

    exact = _parse_leniently(text, remember, stepwise=stepwise)
    return exact, any(names.count(key) > 1 for key in _DECISIVE_KEYS)


def _dumped(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode("ascii")
