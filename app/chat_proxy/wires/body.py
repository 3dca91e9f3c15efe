"""Write the body of a request with another conversation; untouched parts keep their bytes."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from chat_proxy.chat.body.json_writer import serialise
from chat_proxy.chat.body.parsing import has_long_integers
from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.body.splice import serialise_messages, splice
from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.tool_names import name_of_tool
from chat_proxy.wires.chat_completions import CHAT_COMPLETIONS
from chat_proxy.wires.reading import NOTHING_READ, Fields, Items, entries_of
from chat_proxy.wires.request import WireRequest
from chat_proxy.wires.wire import Wire, Written


def wire_of(request: ChatRequest) -> Wire:
    """Return the wire that a request came by."""
    return request.wire if isinstance(request, WireRequest) else CHAT_COMPLETIONS


def own_fields(request: ChatRequest) -> Fields:
    """Return the fields of a request as the client sent them."""
    return request.own_fields if isinstance(request, WireRequest) else request.fields


def exact_fields(request: ChatRequest) -> Fields:
    """Return the fields as the client sent them, with every digit, to be written again.

    The list of messages has them already; outside of it orjson reads long integers as floats.
    """
    fields, key = own_fields(request), wire_of(request).key
    if not has_long_integers([it for name, it in fields.items() if name != key]):
        return fields
    exact: Fields = json.loads(request.body)
    return exact


def has_stored_history(request: ChatRequest) -> bool:
    """Return whether a part of the conversation is stored at the upstream, out of sight."""
    return isinstance(request, WireRequest) and request.reading.is_elsewhere


def written(request: ChatRequest, read: Conversation, conversation: Conversation) -> Written:
    """Return a conversation in the form of its wire; `read` is what the client sent."""
    entries = entries_of(read.fields, conversation.fields, conversation.origins)
    if not isinstance(request, WireRequest):
        return CHAT_COMPLETIONS.write({}, NOTHING_READ, entries)
    return request.wire.write(request.own_fields, request.reading, entries)


def body_with(
    request: ChatRequest,
    read: Conversation,
    conversation: Conversation,
    output: Mapping[str, int] | None = None,
    tool: Fields | None = None,
) -> bytes:
    """Return the body with another conversation, lower limits of the answer, one more tool."""
    if not output and not tool and _is_same(read, conversation):
        return request.body
    wire, read_fields = wire_of(request), own_fields(request)
    items, changed = written(request, read, conversation)
    if output:
        changed = {**changed, **wire.lowered(read_fields, output)}
    if not changed and not tool:
        return splice(request.body, items, read_fields, wire.key)
    given = exact_fields(request)
    if tool:
        changed = {**changed, "tools": tools_with(wire, given, tool)}
    others = {name: value for name, value in given.items() if name != wire.key} | changed
    return document_with(request, items, others)


def document_with(request: ChatRequest, items: Items, fields: Fields) -> bytes:
    """Return a document of items and fields, which may already have the items among them."""
    wire = wire_of(request)
    if wire.key in fields:
        return serialise(fields)
    array = serialise_messages(request.body, items, own_fields(request), wire.key)
    return b'{"%b":%b,%b' % (wire.key.encode(), array, serialise(fields)[1:])


def _is_same(read: Conversation, conversation: Conversation) -> bool:
    """Return whether these are the very messages of the client, all of them."""
    if len(read) != len(conversation):
        return False
    pairs = zip(read.fields, conversation.fields, strict=True)
    return all(mine is theirs for mine, theirs in pairs)


def query_body(
    request: ChatRequest, wire: Wire, items: Items, messages: Sequence[Fields], fields: Fields
) -> bytes:
    """Return the body of a query of our own: the client's items, then messages of ours."""
    own, changed = wire.spoken(messages)
    array = serialise_messages(request.body, [*items, *own], own_fields(request), wire.key)
    head = serialise({"model": fields["model"]})[:-1]
    others = {name: value for name, value in fields.items() if name != "model"} | changed
    return b'%b,"%b":%b,%b' % (head, wire.key.encode(), array, serialise(others)[1:])


def tools_with(wire: Wire, given: Fields, tool: Fields) -> list[Any]:
    """Return the tools of a request and one more, in the form of its wire."""
    return [*(given.get("tools") or ()), wire.tool(tool)]


def continued_body(
    wire: Wire, body: bytes, items: Sequence[Fields], changed: Fields | None = None
) -> bytes:
    """Return a body of ours with items behind its list and with other fields; None takes one out.

    Untouched parts keep their bytes, and numbers all their digits.
    """
    fields = json.loads(body)
    given, changed = fields[wire.key], dict(changed or {})
    if type(given) is not list:
        changed[wire.key] = [wire.new_item({"role": "user", "content": given}), *items]
    all_items = [*range(len(given)), *items]
    if not changed:
        return splice(body, all_items, fields, wire.key)
    others = {name: value for name, value in {**fields, **changed}.items() if value is not None}
    if wire.key in changed:
        return serialise(others)
    array = serialise_messages(body, all_items, fields, wire.key)
    del others[wire.key]
    return b'{"%b":%b,%b' % (wire.key.encode(), array, serialise(others)[1:])


def without_tool(wire: Wire, body: bytes, name: str) -> Fields:
    """Return the fields of a body that change if its model must not call one of the tools.

    The only tool stays: some servers refuse a history with calls where no tool is defined.
    """
    fields = json.loads(body)
    given = fields.get("tools") or ()
    tools = [tool for tool in given if name_of_tool(tool) != name]
    if not tools:
        return {"tool_choice": wire.no_tool}
    is_forced = name_of_tool(fields.get("tool_choice")) == name
    return {"tools": tools, **({"tool_choice": None} if is_forced else {})}
