"""Bodies of any API: what is not changed keeps its bytes, and what is changed is still JSON."""

import json
from typing import Final

from chat_proxy.chat.body.parsed_body import BYTE_ORDER_MARK, RequestLimits
from chat_proxy.chat.conversation import Conversation
from chat_proxy.errors import BadRequest
from chat_proxy.routes.read_request import read_any_wire
from chat_proxy.wires.body import body_with, own_fields, wire_of

LIMITS: Final = RequestLimits(max_depth=64, max_elements=2_000, max_messages=100, max_choices=16)
TOOL: Final = {
    "type": "function",
    "function": {"name": "look_up", "description": "Find", "parameters": {"type": "object"}},
}


def rewrite_any_body(data: bytes) -> None:
    """Write a body unchanged, with copied messages, without its oldest, and with a tool of ours."""
    try:
        request = read_any_wire(data, LIMITS)
        wire_of(request).contract(own_fields(request), [])
    except BadRequest:
        return
    read = request.conversation
    if read is None:
        return
    assert body_with(request, read, Conversation(read.messages, read.origins)) == request.body
    copied = read.with_messages(
        {at: it.with_content(it.content) for at, it in enumerate(read.messages)}
    )
    newest = read.only([*range(read.instructions), *range(read.instructions, len(read))[-1:]])
    for changed in (copied, newest):
        written = json.loads(body_with(request, read, changed).removeprefix(BYTE_ORDER_MARK))
        assert written.get("model") == own_fields(request).get("model")
    if type(own_fields(request).get("tools", [])) is list:
        json.loads(body_with(request, read, read, tool=TOOL))
