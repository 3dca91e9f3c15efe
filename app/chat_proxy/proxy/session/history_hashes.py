"""The hash chain of a client's history: it identifies every prefix without a session id."""

from collections.abc import Sequence
from dataclasses import dataclass

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.hash_chain import canonical_bytes, chained
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.session.checkpoints import root_seam_of

BYTES_PER_MESSAGE = 1_048


@dataclass(frozen=True, slots=True)
class HistoryHashes:
    """The hashes of a conversation: its legal cuts, and the chain's value after each message."""

    seams: tuple[int, ...]
    links: Sequence[bytes]

    def seam_from(self, position: int) -> int:
        """Return the first seam at or after a position."""
        return next(seam for seam in self.seams if seam >= position)

    @property
    def beginning(self) -> bytes:
        """The hash of the conversation's beginning, which stays while it grows."""
        return self.links[self.seams[min(1, len(self.seams) - 1)] - 1]

    def root_at(self, seam: int) -> bytes:
        """Return the hash that all longer histories of this conversation share."""
        return self.link_at(min(seam, root_seam_of(self.seams)))

    def link_at(self, seam: int) -> bytes:
        """Return the hash of the messages before a seam."""
        return self.links[seam - 1]


async def history_hashes(conversation: Conversation, body_bytes: int) -> HistoryHashes:
    """Return the conversation's hashes; a long one is hashed in a thread."""

    def hashed() -> HistoryHashes:
        return HistoryHashes(conversation.seams, chained(map(canonical_bytes, conversation.fields)))

    # A thousand messages take as long as a mebibyte.
    size = max(body_bytes, len(conversation) * BYTES_PER_MESSAGE)
    return await run_inline_or_in_thread(hashed, size)
