"""What is read from a body of any wire: a conversation and options in the words of chat."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Fields = dict[str, Any]
Items = list[int | Fields]
"""Items of a wire's own list: the client's own by its index, others as a dict."""


class Source(NamedTuple):
    """Where a message of the conversation stands in the client's body.

    `start:stop` are items of the wire's list. `blocks` are the positions of its content blocks in
    the one item, None if the message is made of whole items.
    """

    start: int
    stop: int
    blocks: tuple[int, ...] | None = None


INSTRUCTIONS = Source(-1, 0)
"""The source of a message that stands in a field of its own, such as `system`."""
WHOLE_INPUT = Source(-1, -1)
"""The source of a message that is the whole input, as a string."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A body, read: the conversation, where each message comes from, and the options."""

    messages: list[Fields] | None
    """The messages in the form of chat completions; None if the body has none that can be read."""
    sources: list[Source] = field(default_factory=list)
    options: Fields = field(default_factory=dict)
    """The options that decide about the prompt, in the words of chat completions."""
    is_elsewhere: bool = False
    """Whether a part of the history is stored at the upstream."""


NOTHING_READ = Reading(None)


class Entry(NamedTuple):
    """A message to be written."""

    origin: int | None
    """Its index in the conversation that was read; None if the client did not send it."""
    fields: Fields
    is_changed: bool
    """Whether it differs from what was read."""


def entries_of(
    read: Sequence[Fields], written: Sequence[Fields], origins: Sequence[int | None]
) -> Iterator[Entry]:
    """Yield the messages to be written, each with what is known of its origin."""
    for origin, fields in zip(origins, written, strict=True):
        is_changed = origin is None or fields is not read[origin]
        yield Entry(origin, fields, is_changed)


def picked(fields: Mapping[str, Any], names: Sequence[str]) -> Fields:
    """Return those of the fields that are there."""
    return {name: fields[name] for name in names if name in fields}
