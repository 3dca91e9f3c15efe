"""Conversations whose tool output is cut, and what is left of it."""

import html
import json
from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType

from chat_proxy.chat.message import Message
from chat_proxy.chat.result_texts import texts_in
from chat_proxy.compaction.stages.stage import StageContext, StageResult
from chat_proxy.compaction.stages.tool_rules import ToolRule
from chat_proxy.compaction.stages.truncate_tool_output import (
    TruncateToolOutput,
    TruncateToolOutputPolicy,
)
from chat_proxy.compaction.truncate_text import byte_count
from tests.unit.chat.shapes import Fields, conversation

NOTHING = StageContext()


def name_of(words: str) -> str:
    return sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:8]


KEEPING = StageContext(offload_id=name_of)


def truncate(
    *messages: Fields,
    max_bytes: int = 200,
    exempt: tuple[str, ...] = (),
    context: StageContext = NOTHING,
    recent: int = 0,
    old_max_bytes: int = 100,
    rules: Mapping[str, ToolRule] = MappingProxyType({}),
) -> StageResult:
    policy = TruncateToolOutputPolicy(
        True, max_bytes, frozenset(exempt), recent, old_max_bytes, tuple(rules.items())
    )
    return TruncateToolOutput(policy)(conversation(*messages), context)


def texts_of(fields: Fields) -> list[str]:
    return [words for _, words in texts_in(Message(fields))]


def size_of(fields: Fields) -> int:
    return sum(map(byte_count, texts_of(fields)))


def folded(answer: str, name: str = "search") -> str:
    value = html.escape(json.dumps(answer, ensure_ascii=False))
    return (
        f'<details type="tool_calls" done="true" name="{name}" result="{value}">\n'
        "<summary>Tool Executed</summary>\n</details>"
    )
