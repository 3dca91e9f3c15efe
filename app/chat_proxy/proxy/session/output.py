"""The output tokens that a request asks for, lowered to what its prompt leaves of the window."""

from collections.abc import Mapping

from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.pipeline import Step
from chat_proxy.compaction.recall.tool import DEFINITION
from chat_proxy.proxy.session.request import CompactionRequest, CompactionResult, body_of

CLIP_OUTPUT = "clip_output"
OUTPUT_FIELDS = ("max_completion_tokens", "max_tokens")
MARGIN_SHARE = 50
RECALLED_STAGES = frozenset({"truncate_tool_output", "limit_vision_history"})
"""The trimming stages whose cuts the model can ask for."""


def output_fields(compaction: CompactionRequest) -> dict[str, int]:
    """Return the output tokens that the request asks for, by field name."""
    fields = compaction.request.options
    return {name: fields[name] for name in OUTPUT_FIELDS if type(fields.get(name)) is int}


def output_left(limit: int, prompt: int, least: int) -> int:
    """Return the output tokens that a prompt leaves, with a margin, at least `least`."""
    return max(least, limit - prompt - limit // MARGIN_SHARE - 1)


def asks_for_too_much(compaction: CompactionRequest, tokens: int) -> bool:
    """Return whether the prompt and the requested output together exceed the known window."""
    window = compaction.measured.window
    if window is None or not compaction.policy.clips_output:
        return False
    return any(tokens + wanted > window.tokens for wanted in output_fields(compaction).values())


def with_fitting_output(
    compaction: CompactionRequest, result: CompactionResult
) -> CompactionResult:
    """Return the result with the output lowered to what is left of the window.

    A request that no plan could make small enough is not changed: its upstream decides.
    """
    budget, tokens = compaction.measured.budget, result.token_count.tokens
    if budget is None or not asks_for_too_much(compaction, tokens):
        return result
    if tokens + budget.least_answer >= budget.window and not result.is_break:
        return result
    return with_output(result, _lowered(compaction, budget, tokens))


def with_output(result: CompactionResult, output: Mapping[str, int]) -> CompactionResult:
    """Return the result with lower output fields, recorded as a step."""
    label = "trimmed" if result.label == "none" else result.label
    steps = (*result.steps, Step(CLIP_OUTPUT, result.conversation))
    return result._replace(steps=steps, label=label, output=output)


def _lowered(compaction: CompactionRequest, budget: Budget, tokens: int) -> dict[str, int]:
    left = output_left(budget.window, tokens, budget.least_answer)
    return {
        name: min(wanted, left) for name, wanted in output_fields(compaction).items() if wanted > 0
    }


def recalls(compaction: CompactionRequest, result: CompactionResult) -> bool:
    """Return whether the model can ask for what was cut: from the first cut on, not before."""
    if not compaction.offers_recall:
        return False
    return result.checkpoint is not None or not RECALLED_STAGES.isdisjoint(result.stages)


def body_to_send(compaction: CompactionRequest, result: CompactionResult) -> bytes:
    """Return the request body with the result's conversation, output fields and one more tool."""
    tool = DEFINITION if recalls(compaction, result) else None
    return body_of(compaction, result.conversation, result.output, tool)
