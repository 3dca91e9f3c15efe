"""A client's history as it is recognised: the hashes and digests of what its messages say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Final

from chat_proxy.chat.conversation import Conversation, answered_until
from chat_proxy.chat.normal_form.normal_form import normal_forms
from chat_proxy.chat.normal_form.volatile_blocks import VolatileBlocks
from chat_proxy.compaction.recognition.align import Candidate, covers
from chat_proxy.compaction.recognition.digests import (
    MAX_MESSAGES,
    Covered,
    Digester,
    MessageDigest,
    covered_by,
)
from chat_proxy.inline_or_thread import run_inline_or_in_thread

SEED: Final = sha256(b"chat-proxy/chain/2").digest()
INLINE_BYTES = 64 * 1024
"""A request body up to this size is hashed without a thread, whatever it is made of."""
BYTES_PER_MESSAGE = 128
ROOT_SEAM = 3
MAX_ANCHORS = 128
"""How many of the newest seams are looked up by their anchors."""
ANCHOR_MESSAGES = 2
ANCHOR_BYTES = 24
TRAIL_MESSAGES = 12


@dataclass(frozen=True, slots=True)
class History:
    """The hashes of a conversation: its legal cuts, and the chain's value after each message.

    Leading instructions are no part of it: they are sent anew with each request.
    """

    conversation: Conversation
    volatile: VolatileBlocks
    key: bytes
    links: Sequence[bytes]
    """One for each message; those of instructions are all alike."""
    digests: Sequence[MessageDigest]
    """One for each message behind the instructions."""
    sizes: Sequence[int]
    """How many bytes each of these messages says."""

    @property
    def seams(self) -> Sequence[int]:
        """Every position at which the client's list can be cut, instructions not counted as one."""
        return self.conversation.seams

    @property
    def instructions(self) -> int:
        """The number of instructions at the start of the client's list."""
        return self.conversation.instructions

    def seam_from(self, position: int) -> int:
        """Return the first seam at or after a position."""
        return next(seam for seam in self.seams if seam >= position)

    @property
    def beginning(self) -> bytes:
        """The hash of the conversation's beginning, which stays while it grows."""
        return self.link_at(self.seams[min(1, len(self.seams) - 1)])

    @property
    def root_seam(self) -> int:
        """The seam after the messages that identify a conversation; 0 if there is none."""
        first = self.seams[1 : ROOT_SEAM + 1]
        return first[-1] if first else 0

    def root_at(self, seam: int) -> bytes:
        """Return the hash that all longer histories of this conversation share."""
        return self.link_at(min(seam, self.root_seam))

    def link_at(self, seam: int) -> bytes:
        """Return the hash of the messages before a seam."""
        return self.links[seam - 1] if seam else SEED

    def anchors(self, last: int, after: int = 0) -> dict[int, bytes]:
        """Return the anchor of each seam up to `last` and behind `after`, the newest first.

        It is the hash of the last messages that the user and the model spoke before the seam: a
        client that changes older messages does not change it.
        """
        found: dict[int, bytes] = {}
        speech = [at for at, digest in enumerate(self.digests) if digest.is_speech]
        for seam in reversed(self.seams):
            if seam > last:
                continue
            if seam <= max(after, self.instructions) or len(found) == MAX_ANCHORS:
                break
            while speech and speech[-1] >= seam - self.instructions:
                speech.pop()
            if len(speech) >= ANCHOR_MESSAGES:
                said = b"".join(self.digests[at].said for at in speech[-ANCHOR_MESSAGES:])
                found[seam] = self.anchor_of(said)
        return found

    def anchor_at(self, seam: int) -> bytes | None:
        """Return the anchor of one seam, None if too little was spoken before it."""
        return self.anchors(seam, seam - 1).get(seam)

    def trail(self, seam: int) -> bytes:
        """Return the hash of the last messages before a seam, results included."""
        end = seam - self.instructions
        newest = self.digests[max(0, end - TRAIL_MESSAGES) : end]
        return self.anchor_of(b"".join(it.said + it.media for it in newest))

    def anchor_of(self, said: bytes) -> bytes:
        """Return the anchor of some messages by their digests."""
        return blake2b(said, key=self.key[:64], digest_size=ANCHOR_BYTES, person=b"anchor").digest()

    def covered(self, until: int) -> Covered:
        """Return the digests of the newest messages before a seam."""
        end = until - self.instructions
        start = max(0, end - MAX_MESSAGES)
        texts = self._result_texts(start, end)
        older = self.link_at(self.instructions + start) if start else b""
        return covered_by(self.digests[start:end], texts, older, Digester(self.key))

    def candidate(self, seam: int) -> Candidate:
        """Return the messages before a seam as a checkpoint may cover them."""
        end = seam - self.instructions
        older = self.link_at(max(0, end - MAX_MESSAGES) + self.instructions)
        groups = sum(self.instructions < it <= seam for it in self.seams)
        size = sum(self.sizes[:end])
        return Candidate(self.digests[:end], groups, size, older, self._text_of)

    @property
    def size(self) -> int:
        """How many bytes all messages say."""
        return sum(self.sizes)

    def continues(self, other: "History", end: int, seam: int) -> bool:
        """Return whether the messages before a seam say the same as another's before `end`."""
        until, folded = end - other.instructions, seam - self.instructions
        return self.is_covered(other.covered(end), until, seam, folded)

    def is_covered(
        self,
        covered: Covered,
        until: int,
        seam: int,
        folded: int,
        *,
        is_continued: bool = False,
    ) -> bool:
        """Return whether digests of `until` messages cover those before a seam (`covers`)."""
        candidate, digester = self.candidate(seam), Digester(self.key)
        return covers(covered, until, candidate, digester, folded, is_continued=is_continued)

    def _text_of(self, position: int) -> str:
        return self._result_texts(position, position + 1).get(0, "")

    def _result_texts(self, start: int, end: int) -> Mapping[int, str]:
        """Return the normalised texts of the tool results in a range, by their position in it."""
        first = self.instructions
        fields = self.conversation.fields[first + start : first + end]
        forms = normal_forms(fields, self.volatile)
        return {index: form.text for index, form in enumerate(forms) if form.kind == "result"}


async def history_of(
    conversation: Conversation, volatile: VolatileBlocks, key: bytes, body_bytes: int
) -> History:
    """Return the history of a conversation under a scope's key; a long one in a thread."""

    def hashed() -> History:
        history = hashed_history(conversation, volatile, key)
        answered_until(
            conversation
        )  # finds all groups of messages, and the conversation keeps them
        return history

    # Five hundred messages, however short, take as long as a body of that size at worst.
    size = max(body_bytes, len(conversation) * BYTES_PER_MESSAGE)
    return await run_inline_or_in_thread(hashed, size, INLINE_BYTES)


def hashed_history(conversation: Conversation, volatile: VolatileBlocks, key: bytes) -> History:
    """Return the history of a conversation under a scope's key."""
    digester = Digester(key)
    first = conversation.instructions
    links = [SEED] * first
    digests: list[MessageDigest] = []
    sizes: list[int] = []
    link = SEED
    for form in normal_forms(conversation.fields[first:], volatile):
        full = digester.full(form)
        link = sha256(link + full + form.media).digest()
        links.append(link)
        digests.append(digester.digest(form, full))
        sizes.append(len(form.said))
    return History(conversation, volatile, key, links, digests, sizes)
