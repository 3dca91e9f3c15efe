"""Write a conversation as the `messages` of a Messages request."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.chat.texts import is_reasoning
from chat_proxy.wires.messages.read import content_of, is_call, is_result
from chat_proxy.wires.reading import INSTRUCTIONS, Entry, Fields, Items, Source


def write(
    given: list[Fields], sources: list[Source], entries: Iterable[Entry]
) -> tuple[Items, Fields]:
    """Return the wire's messages, and the fields that change beside them."""
    writer = _Writer(given, sources)
    changed: Fields = {}
    for entry in entries:
        source = None if entry.origin is None else sources[entry.origin]
        if source is INSTRUCTIONS:
            if entry.is_changed:
                changed["system"] = entry.fields.get("content")
        else:
            writer.add(entry, source)
    writer.close()
    return writer.items, changed


class _Writer:
    """Put the messages of a conversation together to messages of the wire."""

    def __init__(self, given: list[Fields], sources: list[Source]) -> None:
        self.items: Items = []
        self._given = given
        self._parts = _counts(sources)
        self._index: int | None = None
        """The client's message whose parts are being read."""
        self._run: list[tuple[Source, Entry]] = []

    def add(self, entry: Entry, source: Source | None) -> None:
        """Add the next message of the conversation."""
        if source is None:
            self.close()
            self.items.append(new_message(entry.fields))
            return
        if source.start != self._index or not self._follows(source):
            self.close()
            self._index = source.start
        self._run.append((source, entry))

    def _follows(self, source: Source) -> bool:
        """Return whether blocks of the same message come after those that are held."""
        before = self._run[-1][0].blocks if self._run else None
        return bool(before and source.blocks and before[-1] < source.blocks[0])

    def close(self) -> None:
        """Write the message whose parts are held."""
        if self._index is None:
            return
        index, run = self._index, self._run
        self._index, self._run = None, []
        is_whole = len(run) == self._parts[index]
        if is_whole and not any(entry.is_changed for _, entry in run):
            self.items.append(index)
            return
        message = self._given[index]
        if run[0][0].blocks is None:
            self.items.append(_changed(message, run[0][1].fields))
            return
        blocks = [block for source, entry in run for block in _blocks(message, source, entry)]
        self.items.append({**message, "content": blocks})


def _counts(sources: Iterable[Source]) -> dict[int, int]:
    """Return how many messages of the conversation each message of the wire has become."""
    counts: dict[int, int] = {}
    for source in sources:
        counts[source.start] = counts.get(source.start, 0) + 1
    return counts


def new_message(fields: Fields) -> Fields:
    """Return a message that the client did not send."""
    return {"role": fields["role"], "content": fields.get("content") or ""}


def _blocks(message: Fields, source: Source, entry: Entry) -> Iterator[Any]:
    """Yield the content blocks of one message of the conversation."""
    given = [message["content"][at] for at in source.blocks or ()]
    content = entry.fields.get("content")
    if not entry.is_changed:
        yield from given
    elif is_result(given[0]):
        yield from _result_blocks(given[0], given[1:], content)
    elif type(content) is list:
        yield from _without_empty(content)
    elif content:
        yield {"type": "text", "text": content}


def _result_blocks(result: Fields, reminders: list[Any], content: Any) -> Iterator[Any]:
    """Yield a changed result, and the reminders behind it as far as they are unchanged."""
    kept = len(reminders) if type(content) is list else 0
    if kept and content[-kept:] == reminders:
        content = content[:-kept]
    else:
        reminders = []
    yield {**result, "content": _without_empty(content)}
    yield from reminders


def _changed(message: Fields, fields: Fields) -> Fields:
    """Return a whole message of the client with its changes."""
    given, content = message.get("content"), fields.get("content")
    if type(given) is not list or message.get("role") != "assistant":
        return {**message, "content": _without_empty(content)}
    return {**message, "content": list(_assistant_blocks(given, fields))}


def _assistant_blocks(given: list[Any], fields: Fields) -> Iterator[Any]:
    """Yield what the model said and called, changed, at the places where it was."""
    said = [block for block in given if not is_call(block)]
    content, calls = fields.get("content"), iter(fields.get("tool_calls") or ())
    answered = [block for block in said if not is_reasoning(block)]
    keeps_thinking = True
    if type(content) is str and content_of(said) != said:
        parts = iter([{**said[0], "text": content}])
    elif type(content) is list and len(content) == len(said):
        parts = iter(content)
    elif type(content) is not str and len(content or ()) == len(answered):
        parts, keeps_thinking = iter(content or ()), False
    else:
        parts = iter(said)
    for block in given:
        if is_call(block):
            yield _with_arguments(block, next(calls, None))
        elif keeps_thinking or not is_reasoning(block):
            yield next(parts)


def _with_arguments(block: Fields, call: Any) -> Fields:
    """Return a call with other arguments, which must be an object."""
    if type(call) is not dict:
        return block
    text = call["function"]["arguments"]
    if text == serialise(block.get("input")).decode():
        return block
    try:
        arguments = orjson.loads(text)
    except orjson.JSONDecodeError:
        return block
    return {**block, "input": arguments} if type(arguments) is dict else block


def _without_empty(content: Any) -> Any:
    """Return a content without empty text blocks, which the API refuses."""
    if type(content) is dict:
        content = [content]
    if type(content) is not list:
        return content
    blocks = [{"type": "text", "text": part} if type(part) is str else part for part in content]
    return [block for block in blocks if type(block) is not dict or block.get("text") != ""]
