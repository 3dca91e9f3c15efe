"""Request bodies: each is read or refused, and what is read is what the upstream will read."""

import json
from typing import Any

from chat_proxy.chat.body.parsed_body import BYTE_ORDER_MARK, RequestLimits
from chat_proxy.chat.body.request import read_request
from chat_proxy.chat.body.splice import splice
from chat_proxy.chat.body.structure import structure_of
from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.normal_form.volatile_blocks import VolatileBlocks
from chat_proxy.errors import BadRequest
from chat_proxy.proxy.session.recognition.history import hashed_history
from chat_proxy.tokens.counter import count_messages
from chat_proxy.tokens.overheads import CountingRules, rules_for
from chat_proxy.tokens.tiktoken_counter import TiktokenCounter

LIMITS = RequestLimits(max_depth=64, max_elements=2_000, max_messages=100, max_choices=16)
DECISIVE = ("model", "messages", "stream", "n")
LARGEST_FLOAT = 2**1000

_COUNTER = TiktokenCounter("o200k_base")
_VOLATILE = VolatileBlocks(("env", "system-reminder"))
_RULES: CountingRules = rules_for("gpt-4o")


def read_any_body(data: bytes) -> None:
    """Read a body as the proxy does, and again by the standard library."""
    try:
        request = read_request(data, LIMITS)
    except BadRequest:
        return
    assert structure_of(request.fields, request.body).depth <= LIMITS.max_depth
    sent = json.loads(request.body.removeprefix(BYTE_ORDER_MARK))
    for key in DECISIVE:
        assert _plain(sent.get(key)) == _plain(request.fields.get(key)), key
    if isinstance(sent.get("messages"), list):
        _take_apart(request.body, request.fields)


def _take_apart(body: bytes, fields: dict[str, Any]) -> None:
    """Find each message in the body; see the conversation in them, and count it."""
    messages = fields["messages"]
    reversed_body = splice(body, range(len(messages))[::-1], fields)
    assert json.loads(reversed_body.removeprefix(BYTE_ORDER_MARK))["messages"] == messages[::-1]
    assert splice(body, range(len(messages)), fields) == body
    conversation = Conversation.of(messages)
    if conversation is None:
        return
    history = hashed_history(conversation, _VOLATILE, b"a key")
    assert len(history.links) == len(messages)
    history.covered(len(messages))
    assert all(0 <= seam <= len(messages) for seam in conversation.seams)
    counted = count_messages(messages, _COUNTER, _RULES)
    assert counted is None or counted.total >= 0


def _plain(value: Any) -> Any:
    """Return the value with long integers as floats: outside the messages orjson reads them so."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    is_long = type(value) is int and abs(value) < LARGEST_FLOAT
    return float(value) if is_long else value
