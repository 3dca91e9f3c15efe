"""The normal form of messages: what they say, not how a client wrote them down this time.

Clients that repeat a history change call ids, the order of arguments, cache marks, reasoning, or
whether a content is null, empty or a list of parts. None of that makes it another history.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple

import orjson

from chat_proxy.chat.media import Media, is_media, media_in
from chat_proxy.chat.normal_form.canonical import canonical_bytes, is_complex_json
from chat_proxy.chat.normal_form.volatile_blocks import VolatileBlocks
from chat_proxy.chat.texts import RESULT_ROLES

Kind = Literal["user", "assistant", "result", "other"]

MEDIA_BYTES: Final = 16
NO_PLACE: Final = -1
MAX_BRACKETS: Final = 200
"""Arguments with more of them may be nested too deeply to be written again."""

_REMINDERS: Final = VolatileBlocks(("system-reminder",))
"""What clients append to a result; other blocks in it may be what the tool returned."""
_NOT_SAID: Final = frozenset(
    {
        "role",
        "content",
        "tool_calls",
        "function_call",
        "tool_call_id",
        "id",
        "cache_control",
        "annotations",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "thinking",
        "thinking_blocks",
    }
)
"""Fields that are left out, or represented in a form of their own."""
_TEXT_TYPES: Final = ("text", "input_text", "output_text", None)
_REASONING_TYPES: Final = ("thinking", "redacted_thinking", "reasoning")
_MEDIA_NOTE = re.compile(
    r"\[(?:image|audio|video|document|Attached [^\]:\n]{1,80}):[^\]\n]{0,200}\]"
    r"|\[Old inline media cleared:[^\]\n]{0,200}\](?: [^\n]{0,480})?"
)
_RESULT_HEADER = re.compile(r"\[[a-z_]{2,40}(?: for [^\]\n]{0,400})?\] Result: ?")
"""How Cline and its relatives begin a user message that is a tool's result."""
_LONG_NUMBER = re.compile(r"(?<![\d.])\d{20}")
"""One that would be read as a float, so that others are equal to it."""
_THOUGHTS: Final = "<think>"
_THOUGHTS_END: Final = "</think>"
_RESULTS_START: Final = "<details"
"""How the calls and results begin that a client embeds in an answer."""
_PIECE_CHARS: Final = 256 * 1024
"""What is split at once, in about two milliseconds."""
_SPACE: Final = re.compile(r"\s")
_SEPARATOR: Final = b"\x00"


class NormalMessage(NamedTuple):
    """What one message says: everything but its media, and the hashes of these."""

    kind: Kind
    said: bytes
    media: bytes = b""
    """The hashes of its media, and of the notes that clients leave where media were."""
    has_media: bool = False
    """Whether it has media, not only notes."""
    text: str = ""
    """The normalised text of a tool result, which a client may have shortened; else empty."""


def normal_forms(
    messages: Iterable[dict[str, Any]], volatile: VolatileBlocks
) -> Iterator[NormalMessage]:
    """Yield the normal form of each message; results are told apart by their calls' positions."""
    places: dict[str, int] = {}
    for fields in messages:
        role = fields.get("role")
        if role == "user":
            yield _of_user(fields, volatile)
        elif role == "assistant":
            calls = fields.get("tool_calls")
            if type(calls) is list:
                places |= _places_of(calls)
            yield _of_assistant(fields)
        elif role in RESULT_ROLES:
            answered = fields.get("tool_call_id")
            answered = answered if type(answered) is str else ""
            yield _of_result(fields, places.get(answered, NO_PLACE))
        else:
            yield NormalMessage("other", canonical_bytes(_with_plain_content(fields)))


def _with_plain_content(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose only part is a text as one whose content is that text.

    Clients that put a cache mark on a message make a part of its text.
    """
    content = fields.get("content")
    if type(content) is not list or len(content) != 1 or type(content[0]) is not dict:
        return fields
    (part,) = content
    is_plain = part.get("type") in _TEXT_TYPES and part.keys() <= {"type", "text", "cache_control"}
    return {**fields, "content": part["text"]} if is_plain and "text" in part else fields


def _of_user(fields: dict[str, Any], volatile: VolatileBlocks) -> NormalMessage:
    """Return the form of a user message, which is a result where calls are made in the text."""
    texts, notes = _apart(_texts_of(fields, lambda text: _words(volatile.without(text))))
    said, media = " ".join(filter(None, texts)), _media_of(fields)
    form = NormalMessage("user", _joined(said, fields), media + notes, bool(media))
    header = _RESULT_HEADER.match(said)
    return form if header is None else form._replace(kind="result", text=said[header.end() :])


def _of_assistant(fields: dict[str, Any]) -> NormalMessage:
    said = _without_thoughts("\n".join(_texts_of(fields))).strip()
    calls = [*_calls_in(fields.get("content")), *_calls_of(fields)]
    media = _media_of(fields)
    return NormalMessage("assistant", _joined(said, fields, calls), media, bool(media))


def _of_result(fields: dict[str, Any], place: int) -> NormalMessage:
    texts, notes = _apart(_texts_of(fields))
    text, media = _REMINDERS.without_last("\n".join(texts)), _media_of(fields)
    named = {key: value for key, value in fields.items() if key != "name"}
    said = _joined(text, named, [b"%d" % place])
    return NormalMessage("result", said, media + notes, bool(media), text)


def _apart(texts: Iterable[str]) -> tuple[list[str], bytes]:
    """Return texts without the notes that stand for media, and the hash of these notes."""
    kept: list[str] = []
    notes: list[str] = []
    for text in texts:
        (notes if _MEDIA_NOTE.fullmatch(text) else kept).append(text)
    return kept, _hash_of("\n".join(notes).encode("utf-8", "surrogatepass")) if notes else b""


def _joined(text: str, fields: dict[str, Any], calls: Iterable[bytes] = ()) -> bytes:
    """Return the bytes of a message: its text, its calls, its other fields."""
    words = text.encode("utf-8", "surrogatepass")
    said = [b"%d" % len(words), words, *calls]
    if len(fields) > 2 or "content" not in fields:
        others = {
            key: value
            for key, value in fields.items()
            if key not in _NOT_SAID and value not in (None, "", [])
        }
        if others:
            said.append(canonical_bytes(others))
    return _SEPARATOR.join(said)


def _words(text: str) -> str:
    """Return a text with single spaces: taking a block out leaves others around it.

    A long one is split piece by piece: each call keeps all other threads waiting.
    """
    if len(text) <= _PIECE_CHARS:
        return " ".join(text.split())
    return " ".join(word for piece in _pieces(text) if (word := " ".join(piece.split())))


def _pieces(text: str) -> Iterator[str]:
    """Yield a long text in pieces that end before white space."""
    begin = 0
    while begin < len(text):
        space = _SPACE.search(text, begin + _PIECE_CHARS)
        end = space.start() if space else len(text)
        yield text[begin:end]
        begin = end


def _without_thoughts(text: str) -> str:
    """Return an answer without the thoughts before it, which many clients drop later."""
    end = text.find(_THOUGHTS_END)
    if end < 0:
        return text
    is_at_start = text.lstrip().startswith(_THOUGHTS) or _THOUGHTS not in text
    has_results = text.find(_RESULTS_START, 0, end) >= 0
    return text[end + len(_THOUGHTS_END) :] if is_at_start and not has_results else text


def _texts_of(fields: dict[str, Any], change: Callable[[str], str] = str) -> list[str]:
    """Return the texts of a message's parts, changed; other parts, as results, as written."""
    content = fields.get("content")
    if type(content) is str:
        return [change(content)]
    if type(content) is not list:
        return [] if content is None else [_written(content)]
    texts: list[str] = []
    for part in content:
        if type(part) is not dict:
            texts.append(change(part) if type(part) is str else _written(part))
            continue
        text, kind = part.get("text"), part.get("type")
        if type(text) is str and kind in _TEXT_TYPES:
            texts.append(change(text))
        elif kind not in _REASONING_TYPES and kind != "tool_use" and not is_media(part):
            texts.append(_written(part))
    return texts


def _written(value: Any) -> str:
    shown = value if type(value) is dict else {"content": value}
    return canonical_bytes(shown).decode("utf-8", "replace")


def _media_of(fields: dict[str, Any]) -> bytes:
    """Return the hashes of a message's media, in order; empty if there is none."""
    if type(fields.get("content")) not in (list, dict):
        return b""
    return b"".join(_hash_of(_payload(medium, fields)) for medium in media_in(fields))


def _hash_of(content: bytes) -> bytes:
    return blake2b(content, digest_size=MEDIA_BYTES).digest()


def _payload(medium: Media, fields: dict[str, Any]) -> bytes:
    """Return the bytes by which a medium is recognised: its data, else the part that names it."""
    part: Any = fields
    for key in medium.path:
        part = part[key]
    has_frames = any(type(value) is list for value in part.values())
    if medium.data and not has_frames:
        return medium.data.encode("utf-8", "replace")
    return canonical_bytes(part)


def _places_of(calls: list[Any]) -> dict[str, int]:
    """Return the position of each call among those of its message, by its id.

    The result of a single call needs none: it is recognised even if the call was dropped.
    """
    ids = [call.get("id") if type(call) is dict else None for call in calls]
    places = range(len(ids)) if len(ids) > 1 else (NO_PLACE,)
    return {it: place for it, place in zip(ids, places, strict=False) if type(it) is str}


def _calls_of(fields: dict[str, Any]) -> Iterator[bytes]:
    calls = fields.get("tool_calls")
    for call in calls if type(calls) is list else ():
        yield _call(_made_in(call))
    if fields.get("function_call"):
        yield _call(fields["function_call"])


def _made_in(call: Any) -> Any:
    """Return what is called; a call of another type is that as a whole, but for its id."""
    if type(call) is not dict:
        return call
    made = call.get("function") or call.get("custom")
    return made or {"arguments": {key: value for key, value in call.items() if key != "id"}}


def _calls_in(content: Any) -> Iterator[bytes]:
    for part in content if type(content) is list else ():
        if type(part) is dict and part.get("type") == "tool_use":
            yield _call(part)


def _call(call: Any) -> bytes:
    """Return a call's name and its arguments as sorted JSON."""
    if type(call) is not dict:
        return canonical_bytes({"call": call})
    arguments = call.get("arguments")
    if arguments is None:
        arguments = call.get("input")
    if type(arguments) is str:
        arguments = _parsed(arguments)
    return canonical_bytes({"name": call.get("name"), "arguments": arguments})


def _parsed(arguments: str) -> Any:
    """Return the value that arguments are; their text if they are no JSON, or would change."""
    text = arguments.strip()
    if is_complex_json(text) or _LONG_NUMBER.search(text):
        return text
    try:
        value = orjson.loads(text or "{}")
        if text.count("[") + text.count("{") > MAX_BRACKETS:
            orjson.dumps(value)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return text
    return value
