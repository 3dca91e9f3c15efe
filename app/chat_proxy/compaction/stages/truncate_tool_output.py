"""The stage that cuts tool results that are too long for any conversation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.details_blocks import folded_results, with_folded_results
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
"""When the texts of a result would keep less than this each, its plain parts are cut as one."""


@dataclass(frozen=True, slots=True)
class TruncateToolOutputPolicy:
    """How long a tool result may be, and whose results may be longer."""

    enabled: bool
    max_bytes: int
    exempt_tools: frozenset[str]


class TruncateToolOutput:
    """Keep head and tail of a long tool result, wherever it stands; the call and its id stay.

    The texts of one message count together, and the longest are cut first. A result that is folded
    into an assistant's text counts alone.
    """

    name = "truncate_tool_output"

    def __init__(self, policy: TruncateToolOutputPolicy) -> None:
        self._policy = policy

    def leaves_alone(self, shape: MessageFeatures) -> bool:
        """Tell at a glance that no result is over the limit."""
        return shape.is_plain and shape.longest_result <= self._policy.max_bytes

    def __call__(self, conversation: Conversation, context: StageContext) -> StageResult:
        """Cut every result over the limit; a message comes out the same in any history."""
        cutting = _Cutting(self._policy, conversation, context)
        changed = dict(cutting.changed())
        if not changed:
            return StageResult(conversation)
        return StageResult(conversation.with_messages(changed), cutting.offloads)


class _Cutting:
    """One conversation under the scissors, and the full texts of what was cut."""

    def __init__(
        self, policy: TruncateToolOutputPolicy, conversation: Conversation, context: StageContext
    ) -> None:
        self.offloads: dict[str, str] = {}
        self._max_bytes = policy.max_bytes
        self._exempt_tools = policy.exempt_tools
        self._conversation = conversation
        self._context = context

    def changed(self) -> Iterator[tuple[int, Message]]:
        """Yield every message that comes out shorter, with its place."""
        for index, fields in enumerate(self._conversation.fields):
            content = fields.get("content")
            if not content or (type(content) is str and not exceeds(content, self._max_bytes)):
                continue
            message = Message(fields)
            cut = message
            if message.is_tool_result:
                cut = self._result(index, message)
            elif message.is_assistant:
                cut = self._folded(message)
            if cut is not message:
                yield index, cut

    @cached_property
    def _tools(self) -> dict[int, str]:
        return tool_name_of_results(self._conversation) if self._exempt_tools else {}

    def _result(self, index: int, message: Message) -> Message:
        """Cut a tool's message, unless its tool is exempt."""
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
        """Cut all texts that are longer than their share of the limit."""
        share = _fair_share(_sizes(message), self._max_bytes)
        changed: dict[Path, str] = {}
        for path, text in texts_in(message):
            cut = self._cut(text, share)
            if cut is not text:
                changed[path] = cut
        return message.with_parts(changed)

    def _folded(self, message: Message) -> Message:
        """Cut the results that are folded into an assistant's texts."""
        changed: dict[Path, str] = {}
        for path, content in texts_in(message):
            if exceeds(content, self._max_bytes):
                offloads = self.offloads.copy()
                cut = self._folded_cut(content)
                if len(cut) < len(content) and byte_count(cut) < byte_count(content):
                    changed[path] = cut
                else:
                    # What was hardly escaped may grow when it is written again.
                    self.offloads = offloads
        return message.with_parts(changed)

    def _folded_cut(self, content: str) -> str:
        results = enumerate(folded_results(content))
        texts = {
            ordinal: self._cut(text, self._max_bytes)
            for ordinal, (tool, text) in results
            if tool not in self._exempt_tools
        }
        return with_folded_results(content, texts)

    def _cut(self, text: str, max_bytes: int) -> str:
        """Cut one text and keep it whole elsewhere; the very same text if it need not be cut."""
        if not exceeds(text, max_bytes):
            return text
        name = self._context.offload_id
        offload_id = None if name is None else name(text)
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
    """Return the most that each text may have so that all together have no more than the limit."""
    left = max_bytes
    for rank, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - rank)
        if size > share:
            return share
        left -= size
    return max_bytes
