"""The input of a summary: the span to summarise, what precedes it, and its token counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from chat_proxy.caches import cached_once
from chat_proxy.chat.conversation import Conversation, before_opening
from chat_proxy.chat.message import Message
from chat_proxy.compaction.checkpoint import index_of
from chat_proxy.compaction.summary.commands import without_commands
from chat_proxy.compaction.summary.fold import ACKNOWLEDGEMENT
from chat_proxy.compaction.summary.marker import Sign, find_returned
from chat_proxy.proxy.session.session import AppliedCheckpoint, CompactionSession


class Span(NamedTuple):
    """The messages `start:end` of an unfolded conversation; `end` is a seam between groups."""

    start: int
    end: int


class ReturnedFold(NamedTuple):
    """A folded text of ours that the client sent back as its first message."""

    text: str
    behind: int
    """The index of the first message behind it."""


def returned_fold(conversation: Conversation, sign: Sign) -> ReturnedFold | None:
    """Return the fold that a client sent back, if the conversation begins with one.

    After other messages it replaces none of them: there it is only quoted.
    """
    found = find_returned(conversation, sign)
    if found is None or found.index != conversation.instructions:
        return None
    behind = found.index + 1
    messages = conversation.messages
    if behind < len(messages) and messages[behind].content == ACKNOWLEDGEMENT:
        behind += 1
    return ReturnedFold(found.text, behind)


@dataclass(frozen=True)
class SummaryDraft:
    """A span that needs a summary.

    Its properties count the conversation's tokens again: read them in a thread.
    """

    session: CompactionSession
    applied: AppliedCheckpoint
    wish: str = ""
    """The user's instruction for the summary."""
    has_previous: bool = True
    """Whether the summary updates the earlier one; not if it replaces that."""

    @property
    def conversation(self) -> Conversation:
        """The unfolded conversation in which spans are counted."""
        return self.applied.unfolded

    @cached_once
    def _returned(self) -> ReturnedFold | None:
        return returned_fold(self.conversation, self.session.sign)

    @cached_once
    def start(self) -> int:
        """The index of the first message that no summary covers."""
        start = self.conversation.instructions
        if self.has_previous:
            start = max(start, index_of(self.conversation, self.applied.summarised_until))
        return max(start, self._returned.behind) if self._returned else start

    @property
    def previous(self) -> str:
        """The earlier summary that the new one updates, empty if there is none."""
        checkpoint = self.applied.checkpoint
        if self.has_previous and checkpoint is not None and checkpoint.summary:
            return checkpoint.summary
        return self._returned.text if self._returned is not None else ""

    @cached_once
    def sizes(self) -> list[int]:
        """The tokens of each message as the client sent it."""
        counter = self.session.request_counter
        return counter.count_conversation_in_thread(self.applied.trimmed).sizes

    def span_tokens(self, span: Span) -> int:
        """Return the tokens of a span's original messages."""
        return sum(self.sizes[span.start : span.end])

    def originals(self, span: Span) -> list[Message]:
        """Return a span's messages as the client sent them, before anything was cut in them."""
        sent = self.session.compaction.conversation.messages
        return [sent[origin] for origin in self._origins(span)]

    def unseen(self, span: Span) -> list[Message]:
        """Return the original messages of a span that the upstream's prompt shows cut or not."""
        visible = self.applied.visible
        shown = dict(zip(visible.origins, visible.fields, strict=True))
        sent = self.session.compaction.conversation
        return [
            sent.messages[origin]
            for origin in self._origins(span)
            if shown.get(origin) is not sent.fields[origin]
        ]

    def _origins(self, span: Span) -> list[int]:
        """Return the indexes of a span's messages in the client's list, without commands to us."""
        said = frozenset(without_commands(self.session.compaction.conversation.fields, 0))
        origins = self.conversation.origins[span.start : span.end]
        return [origin for origin in origins if origin is not None and origin in said]

    def boundary(self, span: Span) -> int:
        """Return how many of the client's messages a span's summary covers."""
        origins: Sequence[int | None] = self.conversation.origins
        origin = origins[span.end] if span.end < len(origins) else None
        return len(self.session.compaction.conversation) if origin is None else origin

    def seen(self, span: Span) -> Conversation:
        """Return the prompt up to the end of the span, as it was sent to the upstream."""
        visible = self.applied.visible
        boundary = self.boundary(span)
        return visible.only(
            [
                index
                for index, origin in enumerate(visible.origins)
                if origin is None or origin < boundary
            ]
        )


def shrunk(
    span: Span, conversation: Conversation, sizes: Sequence[int], max_tokens: int
) -> Span | None:
    """Return the span without its newest groups, so that it fits; None if nothing is left.

    The boundary moves back with the groups, so that it never covers what was not summarised.
    """
    end, total, position = span.start, 0, span.start
    for seam in conversation.seams:
        if span.start < seam <= span.end:
            total += sum(sizes[position:seam])
            position = seam
            if total > max_tokens:
                break
            end = seam
    end = before_opening(conversation, end)
    return Span(span.start, end) if end > span.start else None
