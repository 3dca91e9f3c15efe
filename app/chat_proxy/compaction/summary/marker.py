"""The signed line that identifies a folded message which a client stored and sends back."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from hmac import compare_digest

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message

Sign = Callable[[bytes], str]
"""Returns the MAC of some bytes as 32 hex digits; the caller chooses the key and its owner."""

MARKER_START = "[chat-proxy checkpoint "

_PURPOSE = b"chat-proxy/marker/1"
_LINE = re.compile(r"\n\[chat-proxy checkpoint covered=(0|[1-9][0-9]{0,8}) mac=([0-9a-f]{32})\]\Z")
_MAX_LINE_CHARS = 100


@dataclass(frozen=True, slots=True)
class Returned:
    """A folded message that a client sent back: its index and how many messages it covers."""

    index: int
    covered: int
    text: str
    """The message's text without the marker."""


def marker_line(covered: int, mac: str) -> str:
    """Return the line that ends a folded message."""
    return f"{MARKER_START}covered={covered} mac={mac}]"


def signed_text(text_without_marker: str, covered: int) -> bytes:
    """Return the bytes that the MAC covers, each field prefixed by its length."""
    text = text_without_marker.encode("utf-8", "surrogatepass")
    fields = (_PURPOSE, str(covered).encode(), text)
    return b"".join(len(field).to_bytes(8, "big") + field for field in fields)


def add_marker(text: str, covered: int, sign: Sign) -> str:
    """Return the text with its marker as the last line."""
    return f"{text}\n{marker_line(covered, sign(signed_text(text, covered)))}"


def find_returned(conversation: Conversation, sign: Sign) -> Returned | None:
    """Return the newest folded message with a valid MAC, which has not been changed since."""
    for index in range(len(conversation) - 1, -1, -1):
        text = _marked_text(conversation.messages[index])
        found = _LINE.search(text, len(text) - _MAX_LINE_CHARS) if text else None
        if found and _is_signed(unmarked := text[: found.start()], found, sign):
            return Returned(index, int(found[1]), unmarked)
    return None


def _marked_text(message: Message) -> str:
    """Return a user message's text if it may end with a marker, else an empty text."""
    content = message.content
    if type(content) is list and len(content) == 1 and type(content[0]) is dict:
        content = content[0].get("text")
    if type(content) is str and message.is_user and MARKER_START in content[-_MAX_LINE_CHARS:]:
        return content
    return ""


def _is_signed(text: str, line: re.Match[str], sign: Sign) -> bool:
    mac = sign(signed_text(text, int(line[1])))
    return compare_digest(mac.encode(), line[2].encode())
