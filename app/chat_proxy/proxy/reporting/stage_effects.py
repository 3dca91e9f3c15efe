"""What the stages would do to a request, told message by message."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from chat_proxy.chat.conversation import Conversation
from chat_proxy.proxy.session.request import CompactionResult
from chat_proxy.proxy.sizing.measure import Measured

Versions = dict[int | None, object]


def with_outcome(
    told: dict[str, Any], measured: Measured, outcome: CompactionResult, tokens_after: Sequence[int]
) -> dict[str, Any]:
    """Return the explanation with what would be done, in all and to each message."""
    views = [measured.conversation, *(step.conversation for step in outcome.steps)]
    versions = [versions_of(view) for view in views]
    sizes = dict(zip(outcome.conversation.origins, outcome.counted.messages, strict=True))
    hands = [
        (step.stage, *pair) for step, pair in zip(outcome.steps, pairwise(versions), strict=True)
    ]
    messages = [
        {**message, "after": message_after(index, hands, sizes)}
        for index, message in enumerate(told["messages"])
    ]
    tokens = [measured.tokens, *tokens_after]
    stages = [
        {
            "stage": step.stage,
            "messages": [len(before), len(step.conversation)],
            "tokens": [tokens_before, tokens_behind],
        }
        for step, before, (tokens_before, tokens_behind) in zip(
            outcome.steps, views[:-1], pairwise(tokens), strict=True
        )
    ]
    compaction = {
        "outcome": outcome.label,
        "tokens_after": outcome.token_count.tokens,
        "messages_after": len(outcome.conversation),
        "stages": stages,
        "failed_stages": [failure.stage for failure in outcome.failures],
    }
    return {**told, "compaction": compaction, "messages": messages}


def versions_of(conversation: Conversation) -> Versions:
    """Return what each of the client's messages has become, by its place in their list."""
    return dict(zip(conversation.origins, conversation.fields, strict=True))


def message_after(
    index: int, hands: Sequence[tuple[str, Versions, Versions]], sizes: Mapping[int | None, int]
) -> dict[str, Any]:
    """Return what is left of one message, and which stages had a hand in it."""
    stages = [name for name, old, new in hands if old.get(index) is not new.get(index)]
    change = "dropped" if index not in sizes else "changed" if stages else "kept"
    return {"change": change, "tokens": sizes.get(index, 0), "stages": stages}
