"""JSON parsing of a request body: orjson first, the exact standard-library parser if needed."""

import json
import math
import re
from typing import Any, NoReturn

import orjson

from chat_proxy.chat.body.json_writer import serialise_ascii
from chat_proxy.chat.body.stepwise_json import PairsHook, in_steps
from chat_proxy.errors import BadRequest, InvalidEncoding, InvalidJson, InvalidNumber, TooDeep

MAX_DIGITS = 1_000
LONG_INTEGER = 2.0**63
_MAX_SEARCHES = 100

# The proxy decides by these keys, so it must read the same value as the upstream. A body that
# repeats one of them is rewritten with a single value.
_DECISIVE_KEYS = ("model", "messages", "input", "stream", "n")
_ESCAPED_LETTER = re.compile(rb"\\u00(?:6[14-79c-fC-F]|7[02-5])")  # any of those keys' letters


def parse(text: bytes) -> tuple[Any, str]:
    """Return the parsed value, and why orjson rejected the text (empty if it did not).

    What orjson rejects is parsed by the standard library.
    """
    try:
        return orjson.loads(text), ""
    except orjson.JSONDecodeError as error:
        return parse_leniently(text), error.msg


def parse_leniently(text: bytes, root: PairsHook | None = None, *, stepwise: bool = False) -> Any:
    """Parse with the standard library, which accepts lone surrogates and long integers.

    NaN, infinities and integers of more than `MAX_DIGITS` digits are rejected.
    """
    if b"\0" in text[:4]:
        raise InvalidEncoding  # a zero byte near the start means UTF-16 or UTF-32
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


def may_be_lossy(text: bytes, fields: dict[str, Any]) -> bool:
    """Return whether orjson may have lost a repeated key or a digit of a long integer.

    If the parsed request serialises to the same bytes, nothing was lost.
    """
    looks_compact = b'": ' not in text[:64]
    if looks_compact and _serialised(fields) == text:
        return False
    return has_long_integers(conversation_in(fields)) or may_repeat_a_key(text, fields)


def conversation_in(fields: dict[str, Any]) -> object:
    """Return the list of messages, under the name that the API has for it."""
    return fields.get("messages") or fields.get("input")


def has_long_integers(messages: object) -> bool:
    """Return whether a number in the messages may have been an integer too long for orjson.

    orjson turns such integers into floats; a rewritten message must keep every digit.
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
    """Return, by a cheap check, whether a decisive key may occur twice in the request.

    A key that is found once in the text cannot, unless a second one is written with escaped
    letters. Nor can a key that is found equally often in the parsed request after
    serialisation: then nothing was lost.
    """
    if _has_escaped_key_letters(text):
        return True
    keys = [b'"%b"' % key.encode() for key in _DECISIVE_KEYS if key in fields]
    repeated = [key for key in keys if _may_occur_twice(key, text)]
    if not repeated:
        return False
    serialised = _serialised(fields)
    return any(_occurrences(key, text) != _occurrences(key, serialised) for key in repeated)


def _occurrences(key: bytes, text: bytes) -> int:
    """Count a key, but not after a backslash: a quotation mark can be escaped in two ways."""
    return text.count(key) - text.count(b"\\" + key)


def _may_occur_twice(key: bytes, text: bytes) -> bool:
    """Return whether a key is found twice, searching at most `_MAX_SEARCHES` times.

    The search runs backwards because `rfind` is twice as fast. After a backslash it is not a
    key, but part of a string that contains its name.
    """
    position = len(text)
    is_seen = False
    for _ in range(_MAX_SEARCHES):
        position = text.rfind(key, 0, position)
        if position < 0:
            return False
        if text[position - 1 : position] != b"\\":
            if is_seen:
                return True
            is_seen = True
    return True


def _has_escaped_key_letters(text: bytes) -> bool:
    """Return whether a letter of a decisive key is escaped.

    The plain searches come first because the regular expression is slow.
    """
    if text.rfind(b"\\u00") < 0:
        return False
    may_match = any(text.rfind(start) >= 0 for start in (b"\\u006", b"\\u007"))
    return may_match and _ESCAPED_LETTER.search(text) is not None


def _serialised(fields: dict[str, Any]) -> bytes:
    """Serialise a request as most clients do; empty if orjson cannot serialise it."""
    try:
        return orjson.dumps(fields)
    except orjson.JSONEncodeError:
        return b""


def with_single_keys(
    text: bytes, fields: dict[str, Any], body: bytes
) -> tuple[dict[str, Any], bytes]:
    """Return fields and body, rewritten with the last values if a decisive key is repeated."""
    exact, is_settled = settled(text)
    return (exact, serialise_ascii(exact)) if is_settled else (fields, body)


def settled(text: bytes, *, stepwise: bool = False) -> tuple[Any, bool]:
    """Return the request with each key's last value, and whether a decisive key was repeated."""
    names: list[str] = []

    def collect_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names[:] = [name for name, _ in pairs]
        return dict(pairs)

    exact = parse_leniently(text, collect_names, stepwise=stepwise)
    return exact, any(names.count(key) > 1 for key in _DECISIVE_KEYS)
