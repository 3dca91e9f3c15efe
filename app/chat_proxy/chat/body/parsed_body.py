"""A body of any API, parsed within its limits."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from chat_proxy.chat.body.json_writer import serialise_ascii
from chat_proxy.chat.body.parsing import (
    conversation_in,
    has_long_integers,
    may_be_lossy,
    may_repeat_a_key,
    parse,
    parse_leniently,
    settled,
    with_single_keys,
)
from chat_proxy.chat.body.structure import Structure, is_wide, structure_of
from chat_proxy.errors import BadRequest, InvalidJsonRoot, InvalidValue, TooComplex, TooDeep

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
STEPWISE_BYTES = 4 * 1024 * 1024
GLANCE_BYTES = 8 * 1024
VALUE_CHARS = 16
_SLICE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits on the structure of a request."""

    max_depth: int
    max_elements: int
    max_messages: int
    max_choices: int


class ParsedBody(NamedTuple):
    """A parsed body; `body` differs from what was read if it repeated a decisive key."""

    body: bytes
    fields: dict[str, Any]
    has_lone_surrogates: bool = False
    is_exact: bool = False
    """Whether the fields are certainly all that the body says."""
    structure: Structure = Structure()


def parse_body(body: bytes, limits: RequestLimits) -> ParsedBody:
    """Return a parsed body whose elements were counted before, or raise why it is invalid."""
    text = body.removeprefix(BYTE_ORDER_MARK)
    if len(text) > STEPWISE_BYTES:
        return parse_stepwise(text, body, limits)
    return parse_whole(text, body, limits)


def parse_whole(text: bytes, body: bytes, limits: RequestLimits) -> ParsedBody:
    """Parse a body at once; `text` is the body without a byte order mark."""
    fields, refusal = parse(text)
    structure = checked_structure(fields, limits, text)
    is_lossy = may_be_lossy(text, fields)
    if is_lossy:
        if has_long_integers(conversation_in(fields)):
            fields = parse_leniently(text)
        if may_repeat_a_key(text, fields):
            fields, body = with_single_keys(text, fields, body)
    is_exact = not is_lossy and not refusal
    return ParsedBody(body, fields, "surrogate" in refusal, is_exact, structure)


def parse_stepwise(text: bytes, body: bytes, limits: RequestLimits) -> ParsedBody:
    """Parse a large body in many short steps; orjson would hold the GIL for the whole of it."""
    fields, is_settled = settled(text, stepwise=True)
    structure = checked_structure(fields, limits, text)
    body = serialise_ascii(fields) if is_settled else body
    return ParsedBody(body, fields, structure=structure)


def checked_structure(fields: object, limits: RequestLimits, text: bytes) -> Structure:
    """Return the structure of a request, or raise why it is not accepted."""
    if not isinstance(fields, dict):
        raise InvalidJsonRoot
    structure = bounded_structure(fields, text, limits)
    if structure.depth > limits.max_depth:
        raise TooDeep(f"The body is nested deeper than {limits.max_depth} levels.")
    messages = conversation_in(fields)
    count = len(messages) if isinstance(messages, list) else 0
    error = limit_error(count, fields.get("n"), limits)
    if error is not None:
        raise error
    return structure


def bounded_structure(fields: object, text: bytes, limits: RequestLimits) -> Structure:
    """Return the structure of the fields; for a small text with few brackets, an upper estimate."""
    if len(text) <= GLANCE_BYTES:
        brackets = count_marks(text, (b"{", b"["))
        if brackets <= limits.max_depth:
            return Structure(brackets, brackets + len(text) // VALUE_CHARS, depth=brackets)
    return structure_of(fields, text)


def count_elements(body: bytes, max_elements: int) -> int:
    """Return how many elements a body has, 0 if it is small; raise TooComplex if it has too many.

    The count goes slice by slice, so that an extreme body is rejected within its first megabytes.
    """
    elements = 0
    for start in range(0, len(body) if len(body) > max_elements else 0, _SLICE_BYTES):
        elements += count_marks(body[start : start + _SLICE_BYTES], (b"{", b"[", b","))
        if elements > max_elements:
            raise TooComplex(f"The body has more than {max_elements} elements.")
    return elements


def expected_bytes(body: bytes, limits: RequestLimits) -> int:
    """Return the memory that a body takes at most, before it is parsed; raise TooComplex."""
    elements = count_elements(body, limits.max_elements)
    wide_bytes = len(body) if is_wide(body) else 0
    return Structure(0, elements, wide_bytes).memory_bytes(len(body), 0)


def count_marks(text: bytes, marks: Iterable[bytes]) -> int:
    """Count the marks; `replace` jumps from one to the next, while `count` reads every byte."""
    count = 0
    for mark in marks:
        count += len(text) - len(text.replace(mark, b""))
    return count


def limit_error(messages: int, choices: object, limits: RequestLimits) -> BadRequest | None:
    """Return the error for too many messages or choices, if there are too many."""
    if messages > limits.max_messages:
        return InvalidValue(
            f"At most {limits.max_messages} messages are allowed.", param="messages"
        )
    if isinstance(choices, int | float) and choices > limits.max_choices:
        return InvalidValue(f"At most {limits.max_choices} choices are allowed.", param="n")
    return None
