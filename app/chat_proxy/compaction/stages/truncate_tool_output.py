"""The stage that truncates long tool results, and takes base64 out of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from chat_proxy.caches import cached_once
from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.details_blocks import (
    embedded_results,
    may_embed_results,
    with_embedded_results,
)
from chat_proxy.chat.media import Path
from chat_proxy.chat.message import Message
from chat_proxy.chat.message_features import MessageFeatures
from chat_proxy.chat.result_texts import has_base64, texts_in, with_plain_parts_joined
from chat_proxy.chat.tool_names import tool_name_of_results
from chat_proxy.compaction.remove_base64 import WithoutBase64, without_base64
from chat_proxy.compaction.stages.stage import StageContext, StageResult
from chat_proxy.compaction.stages.tool_rules import (
    NamedRule,
    ResultPlace,
    newest_results,
    rule_for,
)
from chat_proxy.compaction.truncate_text import (
    byte_count,
    exceeds,
    file_note,
    is_truncated,
    line_note,
    omission_note,
    shortened,
    shortened_with_line,
)

LEAST_SHARE_BYTES = 200
"""If each text of a result could keep less than this, its plain parts are joined and cut as one."""


@dataclass(frozen=True, slots=True)
class TruncateToolOutputPolicy:
    """The maximum length of tool results by age and tool, and the tools that are exempt from it."""

    enabled: bool
    max_bytes: int
    exempt_tools: frozenset[str]
    recent_results: int = 0
    """How many of the newest results have `max_bytes`, older ones `old_max_bytes`; 0: all."""
    old_max_bytes: int = 3_000
    rules: tuple[NamedRule, ...] = ()
    """The rules of single tools, which take precedence over the general limits."""

    @property
    def depends_on_age(self) -> bool:
        """Whether a result may have another limit when it is no longer among the newest."""
        return self.recent_results > 0 or any(rule == "recent" for _, rule in self.rules)

    @property
    def smallest_limit(self) -> int:
        """The smallest limit that any result may have."""
        sizes = [rule for _, rule in self.rules if type(rule) is int]
        old = [self.old_max_bytes] if self.depends_on_age else []
        return min([self.max_bytes, *old, *sizes])


class _Limit(NamedTuple):
    max_bytes: int
    names_line: bool = False
    """Whether the note says from which line to read on."""


class TruncateToolOutput:
    """Keep the head and tail of a long tool result, and a note instead of base64 inside it.

    The call and its id stay. The texts of one message share the limit, and the longest are cut
    first. A result that is embedded in assistant text has the limit for itself.
    """

    name = "truncate_tool_output"

    def __init__(self, policy: TruncateToolOutputPolicy) -> None:
        self._policy = policy
        self._smallest_limit = policy.smallest_limit

    def has_nothing_to_do(self, shape: MessageFeatures) -> bool:
        """Return whether no result is over a limit or has base64, by the features alone."""
        is_short = shape.longest_result <= self._smallest_limit
        return is_short and shape.is_plain and not shape.may_have_base64

    def __call__(self, conversation: Conversation, context: StageContext) -> StageResult:
        """Cut every result over its limit; without tiers a message is cut alike in any history."""
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
        self._policy = policy
        self._smallest_limit = policy.smallest_limit
        self._conversation = conversation
        self._context = context
        self._may_have_base64 = conversation.shape.may_have_base64
        self._stripped: dict[str, WithoutBase64] = {}

    def changed(self) -> Iterator[tuple[int, Message]]:
        """Yield every message that was cut, with its index."""
        for index, fields in enumerate(self._conversation.fields):
            message = Message(fields)
            cut = message
            if message.is_tool_result:
                cut = self._result(index, message)
            elif message.is_assistant and message.content:
                cut = self._with_embedded_cut(index, message)
            if cut is not message:
                yield index, cut

    @cached_once
    def _tools(self) -> dict[int, str]:
        is_needed = self._policy.exempt_tools or self._policy.rules
        return tool_name_of_results(self._conversation) if is_needed else {}

    @cached_once
    def _newest(self) -> frozenset[ResultPlace]:
        return newest_results(self._conversation, max(1, self._policy.recent_results))

    def _limit(self, place: ResultPlace, tool: str) -> _Limit | None:
        """Return the limit of a result; None if it stays whole."""
        policy = self._policy
        if tool in policy.exempt_tools:
            return None
        rule = rule_for(policy.rules, tool)
        if rule == "whole" or (rule == "recent" and place in self._newest):
            return None
        if type(rule) is int:
            return _Limit(rule, names_line=True)
        is_old = policy.recent_results > 0 and place not in self._newest
        return _Limit(policy.old_max_bytes if rule == "recent" or is_old else policy.max_bytes)

    def _has_base64(self, text: str) -> bool:
        return self._may_have_base64 and has_base64(text)

    def _result(self, index: int, message: Message) -> Message:
        """Cut a tool message, unless it stays whole."""
        if not self._may_be_cut(message.content):
            return message
        limit = self._limit(ResultPlace(index), self._tools.get(index, ""))
        if limit is None:
            return message
        sizes = self._sizes(message)
        share = _fair_share(sizes, limit.max_bytes)
        is_short = max(sizes, default=0) <= share
        if is_short and not self._may_have_base64:
            return message
        if is_short or share >= LEAST_SHARE_BYTES:
            return self._texts_cut(message, limit._replace(max_bytes=share))
        offloads = self.offloads.copy()
        joined = with_plain_parts_joined(message)
        share = _fair_share(self._sizes(joined), limit.max_bytes)
        cut = self._texts_cut(joined, limit._replace(max_bytes=share))
        if _total(cut) < _total(message):
            return cut
        self.offloads = offloads
        return message

    def _may_be_cut(self, content: Any) -> bool:
        """Return whether a result may have a text that is over its limit or has base64."""
        if type(content) is not str:
            return bool(content)
        return exceeds(content, self._smallest_limit) or bool(self._without_base64(content).removed)

    def _sizes(self, message: Message) -> list[int]:
        """Return the bytes of each text without its base64."""
        texts = [text for _, text in texts_in(message)]
        if self._may_have_base64:
            texts = [self._without_base64(text).text for text in texts]
        return [byte_count(text) for text in texts]

    def _texts_cut(self, message: Message, limit: _Limit) -> Message:
        """Cut every text that is longer than the limit or has base64."""
        changed: dict[Path, str] = {}
        for path, text in texts_in(message):
            cut = self._cut(text, limit)
            if cut is not text:
                changed[path] = cut
        return message.with_parts(changed)

    def _with_embedded_cut(self, index: int, message: Message) -> Message:
        """Cut the results that are embedded in assistant texts."""
        changed: dict[Path, str] = {}
        for path, content in texts_in(message):
            is_long = exceeds(content, self._smallest_limit)
            if may_embed_results(content) and (is_long or self._has_base64(content)):
                offloads = self.offloads.copy()
                cut = self._embedded_cut(ResultPlace(index, path), content)
                if len(cut) < len(content) and byte_count(cut) < byte_count(content):
                    changed[path] = cut
                else:
                    # A text with little escaping may grow when it is escaped again.
                    self.offloads = offloads
        return message.with_parts(changed)

    def _embedded_cut(self, place: ResultPlace, content: str) -> str:
        texts: dict[int, str] = {}
        # Escaping may hide base64: it stays, as it is not known without reading every block.
        is_hidden = not self._has_base64(content)
        for ordinal, (tool, text) in enumerate(embedded_results(content)):
            limit = self._limit(place._replace(ordinal=ordinal), tool)
            if limit is not None:
                texts[ordinal] = self._cut(text, limit, keep_base64=is_hidden)
        return with_embedded_results(content, texts)

    def _cut(self, text: str, limit: _Limit, *, keep_base64: bool = False) -> str:
        """Cut one text and add the full text to the offloads; the same object if it is not cut."""
        stripped = WithoutBase64(text) if keep_base64 else self._without_base64(text)
        if stripped.text is text and not exceeds(text, limit.max_bytes):
            return text
        offload_id = self._offload_id(text)
        if offload_id in self._context.whole:
            return text
        cut = self._shortened(stripped, limit, offload_id)
        if offload_id is not None and cut is not text:
            self.offloads[offload_id] = text
        return cut

    def _shortened(self, stripped: WithoutBase64, limit: _Limit, offload_id: str | None) -> str:
        """Truncate a text; the note says where the full text is, and the line if it is known."""
        text, max_bytes, line_at = stripped.text, limit.max_bytes, stripped.line_at
        file = self._file(offload_id)
        if file is not None:
            return shortened_with_line(
                text, max_bytes, lambda omitted, line: file_note(omitted, file, line), line_at
            )
        if limit.names_line:
            return shortened_with_line(
                text, max_bytes, lambda omitted, line: line_note(omitted, offload_id, line), line_at
            )
        return shortened(text, max_bytes, lambda omitted: omission_note(omitted, offload_id))

    def _without_base64(self, text: str) -> WithoutBase64:
        """Return the text with notes instead of base64; the first says where the full text is."""
        # A truncation may leave a part of other text that looks like base64: that part stays.
        if not self._may_have_base64 or is_truncated(text):
            return WithoutBase64(text)
        if text not in self._stripped:
            self._stripped[text] = without_base64(text, self._whereabouts)
        stripped = self._stripped[text]
        return stripped if stripped.removed else WithoutBase64(text)

    def _whereabouts(self, text: str) -> str:
        offload_id = self._offload_id(text)
        file = self._file(offload_id)
        if file is not None:
            return f" [full text: {file}]"
        return "" if offload_id is None else f" [offload id: {offload_id}]"

    def _offload_id(self, text: str) -> str | None:
        offload_id_of = self._context.offload_id
        return None if offload_id_of is None else offload_id_of(text)

    def _file(self, offload_id: str | None) -> str | None:
        file_of = self._context.file_of
        return None if offload_id is None or file_of is None else file_of(offload_id)


def _total(message: Message) -> int:
    return sum(byte_count(text) for _, text in texts_in(message))


def _fair_share(sizes: Sequence[int], max_bytes: int) -> int:
    """Return the maximum bytes per text so that all texts together are within the limit."""
    remaining = max_bytes
    for rank, size in enumerate(sorted(sizes)):
        share = remaining // (len(sizes) - rank)
        if size > share:
            return share
        remaining -= size
    return max_bytes
