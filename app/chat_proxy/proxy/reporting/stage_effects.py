"""What the stages would do to a request, message by message."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from chat_proxy.chat.conversation import Conversation
from chat_proxy.proxy.session.request import CompactionResult
from chat_proxy.proxy.sizing.measure import Measured

Versions = dict[int | None, object]


def with_outcome(
    document: dict[str, Any],
    measured: Measured,
    outcome: CompactionResult,
    tokens_after: Sequence[int],
) -> dict[str, Any]:
    """Return the explanation with what would be done to the request and to each message."""
    views = [measured.conversation, *(step.conversation for step in outcome.steps)]
    versions = [versions_of(view) for view in views]
    sizes = dict(zip(outcome.conversation.origins, outcome.counted.messages, strict=True))
    changes = [
        (step.stage, *pair) for step, pair in zip(outcome.steps, pairwise(versions), strict=True)
    ]
    messages = [
        {**message, "after": message_after(index, changes, sizes)}
        for index, message in enumerate(document["messages"])
    ]
    tokens = [measured.tokens, *tokens_after]
    stages = [
        {
            "stage": step.stage,
            "messages": [len(before), len(step.conversation)],
            "tokens": [size_before, size_after],
        }
        for step, before, (size_before, size_after) in zip(
            outcome.steps, views[:-1], pairwise(tokens), strict=True
        )
    ]
    compaction = {
        "outcome": outcome.label,
        "tokens_after": outcome.token_count.tokens,
        "messages_after": len(outcome.conversation),
        "stages": stages,
        "failed_stages": [failure.stage for failure in outcome.failures],
        "plan": outcome.plan.as_document() if outcome.plan else None,
        "unfit": outcome.unfit or None,
    }
    return {**document, "compaction": compaction, "messages": messages}


def versions_of(conversation: Conversation) -> Versions:
    """Return the current version of each of the client's messages, by its index in their list."""
    return dict(zip(conversation.origins, conversation.fields, strict=True))


def message_after(
    index: int, changes: Sequence[tuple[str, Versions, Versions]], sizes: Mapping[int | None, int]
) -> dict[str, Any]:
    """Return what is left of one message, and the stages that changed it."""
    stages = [name for name, old, new in changes if old.get(index) is not new.get(index)]
    change = "dropped" if index not in sizes else "changed" if stages else "kept"
    return {"change": change, "tokens": sizes.get(index, 0), "stages": stages}
