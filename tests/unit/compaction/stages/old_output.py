"""What the stage that clears old tool output decides about a conversation."""

from dataclasses import replace

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.apply_clearing import RESULT_NOTE, clear
from chat_proxy.compaction.clearing import Clearing
from chat_proxy.compaction.stages.clear_old_tool_output import (
    ClearOldToolOutput,
    ClearOldToolOutputPolicy,
)
from tests.unit.chat.shapes import user
from tests.unit.compaction.stages.pressing import pressure_on, turn

NOTE_TOKENS = len(RESULT_NOTE)
POLICY = ClearOldToolOutputPolicy(
    enabled=True,
    protect_tokens=40_000,
    minimum_tokens=20_000,
    protect_turns=2,
    protected_tools=frozenset({"skill"}),
    keep_results=1,
    old_max_bytes=3_000,
)
EAGER = replace(POLICY, minimum_tokens=1)
RECENT = [*turn("recent", 100), user("now?")]


def decided(
    given: Conversation,
    policy: ClearOldToolOutputPolicy = POLICY,
    done: Clearing | None = None,
    **pressure: int,
) -> Clearing:
    stage = ClearOldToolOutput(policy)
    return stage(given, done or Clearing(), pressure_on(given, **pressure))


def carried_out(
    given: Conversation, clearing: Clearing, policy: ClearOldToolOutputPolicy = POLICY
) -> Conversation:
    return clear(given, clearing, policy.old_max_bytes)
