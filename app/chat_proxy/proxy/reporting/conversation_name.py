"""The name of a conversation: short, the same for all its requests, without its content."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

from chat_proxy.caches import GenerationCache
from chat_proxy.chat.conversation import Conversation
from chat_proxy.store.base import Store

MESSAGES = 8
PARTS = 8
CHARS = 2_000
CHARACTERS = 12

_names: GenerationCache[str] = GenerationCache(1_000)


def name_of(conversation: Conversation, tenant: str, store: Store) -> str:
    """Return the name by which the dashboard groups the requests of a conversation.

    It is a hash of the conversation's beginning up to the first user message, and only of the
    heads of its texts. The store's secret makes it unguessable. Names are cached by the tenant and
    the known beginning, if that contains a user message.
    """
    begun = conversation.beginning
    if not begun.shape.has_user_message:
        return _name(_heads(conversation.fields), tenant, store)
    key = (begun.key, tenant, store.address)
    name = _names.recall(key)
    if name is None:
        name = _name(_heads(conversation.fields), tenant, store)
        _names.remember(key, name)
    return name


def _heads(messages: Sequence[dict[str, Any]]) -> list[str]:
    heads: list[str] = []
    for fields in messages[:MESSAGES]:
        role = fields.get("role")
        heads += (role[:CHARS] if type(role) is str else "", *heads_of(fields.get("content")))
        if role == "user":
            break
    return heads


def _name(heads: list[str], tenant: str, store: Store) -> str:
    pieces = [_key(store.address, tenant)]
    for head in heads:
        piece = head.encode("utf-8", "surrogatepass")
        pieces += (len(piece).to_bytes(4, "big"), piece)
    return sha256(b"".join(pieces)).hexdigest()[:CHARACTERS]


@lru_cache(maxsize=1_000)
def _key(address: Callable[..., bytes], tenant: str) -> bytes:
    return address(b"conversation", tenant.encode())


def heads_of(content: Any) -> list[str]:
    """Return the beginnings of a content's texts, with an empty text for each medium."""
    if type(content) is str:
        return [content[:CHARS]]
    parts = content[:PARTS] if type(content) is list else []
    texts = [part.get("text") if type(part) is dict else part for part in parts]
    return [text[:CHARS] if type(text) is str else "" for text in texts]
