"""Markers: only a text that we signed is taken for one, and nothing of it can be changed."""

from hashlib import sha256

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.summary.marker import add_marker, find_returned

FORGED = "0" * 32
COVERED = 7


def mark_any_text(data: bytes) -> None:
    """Look for a marker in a text of others, then in the same text signed, then in it spoilt."""
    text = data.decode("utf-8", "surrogateescape")
    assert find_returned(_said(text), lambda _: FORGED[:-1] + "x") is None
    signed = add_marker(text, COVERED, _sign)
    for content in (signed, [{"type": "text", "text": signed}]):
        found = find_returned(_said(content), _sign)
        assert found is not None
        assert (found.text, found.covered, found.index) == (text, COVERED, 0)
    place = len(data) % len(signed)
    spoilt = signed[:place] + chr((ord(signed[place]) + 1) % 0xD800) + signed[place + 1 :]
    assert find_returned(_said(spoilt), _sign) is None


def _sign(content: bytes) -> str:
    return sha256(b"secret" + content).hexdigest()[:32]


def _said(content: object) -> Conversation:
    conversation = Conversation.of([{"role": "user", "content": content}])
    assert conversation is not None
    return conversation
