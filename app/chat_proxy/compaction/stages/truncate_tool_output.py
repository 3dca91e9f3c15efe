"""The stage that truncates tool results that are too long for any conversation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.details_blocks import embedded_results, with_embedded_results
from chat_proxy.chat.media import Path
from chat_proxy.chat.message import Message
from chat_proxy.chat.message_features import MessageFeatures
from chat_proxy.chat.result_texts import texts_in, with_plain_parts_joined
from chat_proxy.chat.tool_names import tool_name_of_results
from chat_proxy.compaction.stages.stage import StageContext, StageResult
from chat_proxy.compaction.truncate_text import (
    byte_count,
    exceeds,
    omission_note,
    shortened,
    shortened_file,
)

LEAST_SHARE_BYTES = 200
"""If each text of a result could keep less than this, its plain parts are joined and cut as one."""


@dataclass(frozen=True, slots=True)
class TruncateToolOutputPolicy:
    """The maximum length of a tool result, and the tools that are exempt from it."""

    enabled: bool
    max_bytes: int
    exempt_tools: frozenset[str]


class TruncateToolOutput:
    """Keep the head and tail of a long tool result at any position; the call and its id stay.

    The texts of one message share the limit, and the longest are cut first. A result that is
    embedded in assistant text has the limit for itself.
    """

    name = "truncate_tool_output"

    def __init__(self, policy: TruncateToolOutputPolicy) -> None:
        self._policy = policy

    def has_nothing_to_do(self, shape: MessageFeatures) -> bool:
        """Return whether no result is over the limit, by the message features alone."""
        return shape.is_plain and shape.longest_result <= self._policy.max_bytes

    def __call__(self, conversation: Conversation, context: StageContext) -> StageResult:
        """Cut every result over the limit; a message gives the same result in any history."""
        truncation = _Truncation(self._policy, conversation, context)
        changed = dict(truncation.changed())
        if not changed:
            return StageResult(conversation)
        return StageResult(conversation.with_messages(changed), truncation.offloads)


class _Truncation:
    """The truncation of one conversation; `offloads` collects the full texts of what was cut."""

    def __init__(
        self, policy: TruncateToolOutputPolicy, conversation: Conversation, context: StageContext
    ) -> None:
        self.offloads: dict[str, str] = {}
        self._max_bytes = policy.max_bytes
        self._exempt_tools = policy.exempt_tools
        self._conversation = conversation
        self._context = context

    def changed(self) -> Iterator[tuple[int, Message]]:
        """Yield every message that was cut, with its index."""
        for index, fields in enumerate(self._conversation.fields):
            content = fields.get("content")
            if not content or (type(content) is str and not exceeds(content, self._max_bytes)):
                continue
            message = Message(fields)
            cut = message
            if message.is_tool_result:
                cut = self._result(index, message)
            elif message.is_assistant:
                cut = self._with_embedded_cut(message)
            if cut is not message:
                yield index, cut

    @cached_property
    def _tools(self) -> dict[int, str]:
        return tool_name_of_results(self._conversation) if self._exempt_tools else {}

    def _result(self, index: int, message: Message) -> Message:
        """Cut a tool message, unless its tool is exempt."""
        sizes = _sizes(message)
        share = _fair_share(sizes, self._max_bytes)
        if max(sizes, default=0) <= share or self._tools.get(index) in self._exempt_tools:
            return message
        if share >= LEAST_SHARE_BYTES:
            return self._texts_cut(message)
        offloads = self.offloads.copy()
        cut = self._texts_cut(with_plain_parts_joined(message))
        if sum(_sizes(cut)) < sum(sizes):
            return cut
        self.offloads = offloads
        return message

    def _texts_cut(self, message: Message) -> Message:
        """Cut every text that is longer than its share of the limit."""
        share = _fair_share(_sizes(message), self._max_bytes)
        changed: dict[Path, str] = {}
        for path, text in texts_in(message):
            cut = self._cut(text, share)
            if cut is not text:
                changed[path] = cut
        return message.with_parts(changed)

    def _with_embedded_cut(self, message: Message) -> Message:
        """Cut the results that are embedded in assistant texts."""
        changed: dict[Path, str] = {}
        for path, content in texts_in(message):
            if exceeds(content, self._max_bytes):
                offloads = self.offloads.copy()
                cut = self._embedded_cut(content)
                if len(cut) < len(content) and byte_count(cut) < byte_count(content):
                    changed[path] = cut
                else:
                    # A text with little escaping may grow when it is escaped again.
                    self.offloads = offloads
        return message.with_parts(changed)

    def _embedded_cut(self, content: str) -> str:
        results = enumerate(embedded_results(content))
        texts = {
            ordinal: self._cut(text, self._max_bytes)
            for ordinal, (tool, text) in results
            if tool not in self._exempt_tools
        }
        return with_embedded_results(content, texts)

    def _cut(self, text: str, max_bytes: int) -> str:
        """Cut one text and add the full text to the offloads; the same object if it is not cut."""
        if not exceeds(text, max_bytes):
            return text
        offload_id_of = self._context.offload_id
        offload_id = None if offload_id_of is None else offload_id_of(text)
        if offload_id in self._context.whole:
            return text
        if offload_id is not None and self._context.file_of is not None:
            cut = shortened_file(text, max_bytes, self._context.file_of(offload_id))
        else:
            cut = shortened(text, max_bytes, partial(omission_note, offload_id=offload_id))
        if offload_id is not None and cut is not text:
            self.offloads[offload_id] = text
        return cut


def _sizes(message: Message) -> list[int]:
    return [byte_count(text) for _, text in texts_in(message)]


def _fair_share(sizes: Sequence[int], max_bytes: int) -> int:
    """Return the maximum bytes per text so that all texts together are within the limit."""
    remaining = max_bytes
    for rank, size in enumerate(sorted(sizes)):
        share = remaining // (len(sizes) - rank)
        if size > share:
            return share
        remaining -= size
    return max_bytes
