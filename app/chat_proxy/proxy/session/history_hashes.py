"""A client's history by its content: every prefix has a name, and nobody needs a session id."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.hash_chain import canonical_bytes, chained
from chat_proxy.proxy.session.checkpoints import root_seam_of

INLINE_BYTES = 1024 * 1024
INLINE_MESSAGES = 1_000


@dataclass(frozen=True, slots=True)
class HistoryHashes:
    """The messages that a client sent: where they may be cut, and the chain's value behind each."""

    seams: tuple[int, ...]
    links: Sequence[bytes]

    def seam_from(self, position: int) -> int:
        """Return the first seam at or behind a position."""
        return next(seam for seam in self.seams if seam >= position)

    @property
    def beginning(self) -> bytes:
        """The name of the conversation's first exchange, which stays while it grows."""
        return self.links[self.seams[min(1, len(self.seams) - 1)] - 1]

    def root_at(self, seam: int) -> bytes:
        """Return the name that all longer histories of this conversation share."""
        return self.link_at(min(seam, root_seam_of(self.seams)))

    def link_at(self, seam: int) -> bytes:
        """Return the name of the messages before a seam."""
        return self.links[seam - 1]


async def history_hashes(conversation: Conversation, body_bytes: int) -> HistoryHashes:
    """Return the conversation's history; a long one is hashed in a thread."""
    if body_bytes <= INLINE_BYTES and len(conversation) <= INLINE_MESSAGES:
        return _history(conversation)
    return await asyncio.to_thread(_history, conversation)


def _history(conversation: Conversation) -> HistoryHashes:
    return HistoryHashes(conversation.seams, chained(map(canonical_bytes, conversation.fields)))
