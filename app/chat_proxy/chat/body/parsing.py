"""A body as JSON: what a fast parser may have lost is noticed, and read again by an exact one."""

import json
import math
import re
from typing import Any, NoReturn

import orjson

from chat_proxy.chat.body.stepwise_json import PairsHook, in_steps
from chat_proxy.errors import BadRequest, InvalidEncoding, InvalidJson, InvalidNumber, TooDeep

MAX_DIGITS = 1_000
LONG_INTEGER = 2.0**63
_MAX_LOOKS = 100

# What is decided by these keys must be what the upstream reads: twice the same key is settled here.
_DECISIVE_KEYS = ("model", "messages", "stream", "n")
_ESCAPED_LETTER = re.compile(rb"\\u00(?:6[14-7c-fC-F]|7[2-4])")  # any of those keys' letters


def parse(text: bytes) -> tuple[Any, str]:
    """Parse by orjson, or what it refuses by the standard library; tell why it did, if it did."""
    try:
        return orjson.loads(text), ""
    except orjson.JSONDecodeError as error:
        return parse_leniently(text), error.msg


def parse_leniently(text: bytes, root: PairsHook | None = None, *, stepwise: bool = False) -> Any:
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


def may_have_lost(text: bytes, fields: dict[str, Any]) -> bool:
    """Tell whether a key or a digit may be lost; not if the request, written again, is the same."""
    looks_compact = b'": ' not in text[:64]
    if looks_compact and _written(fields) == text:
        return False
    return holds_long_integers(fields.get("messages")) or may_repeat_a_key(text, fields)


def holds_long_integers(messages: object) -> bool:
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


def may_repeat_a_key(text: bytes, fields: dict[str, Any]) -> bool:
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
    return any(_times(key, text) != _times(key, written) for key in several)


def _times(key: bytes, text: bytes) -> int:
    """Count a key, and not behind a backslash: a quotation mark may be escaped in two ways."""
    return text.count(key) - text.count(b"\\" + key)


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


def with_single_keys(
    text: bytes, fields: dict[str, Any], body: bytes
) -> tuple[dict[str, Any], bytes]:
    """Write the request anew from its last values when a decisive key stands twice in it."""
    exact, is_settled = settled(text)
    return (exact, dumped(exact)) if is_settled else (fields, body)


def settled(text: bytes, *, stepwise: bool = False) -> tuple[Any, bool]:
    """Return the request by its last values, and whether a decisive key stood twice."""
    names: list[str] = []

    def remember(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names[:] = [name for name, _ in pairs]
        return dict(pairs)

    exact = parse_leniently(text, remember, stepwise=stepwise)
    return exact, any(names.count(key) > 1 for key in _DECISIVE_KEYS)


def dumped(fields: dict[str, Any]) -> bytes:
    """Write a request in plain ASCII, which every number and every text allows."""
    return json.dumps(fields, separators=(",", ":")).encode("ascii")
