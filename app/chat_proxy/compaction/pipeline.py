"""The pipeline: runs the stages in order, and is the only place where a failing one is skipped."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message_features import MessageFeatures
from chat_proxy.compaction.stages.order import StagePolicies, trimming_stages
from chat_proxy.compaction.stages.stage import NOTHING_CUT, Stage, StageContext, StageResult

T = TypeVar("T")
TALK = MessageFeatures()
"""The features of text messages without tools; no stage depends on their roles."""


class Step(NamedTuple):
    """A stage that changed something, and the conversation after it."""

    stage: str
    conversation: Conversation


class Failure(NamedTuple):
    """A stage that raised, and its exception."""

    stage: str
    error: Exception


class Trimmed(NamedTuple):
    """A conversation after the trimming stages."""

    conversation: Conversation
    steps: tuple[Step, ...] = ()
    failures: tuple[Failure, ...] = ()
    offloads: Mapping[str, str] = NOTHING_CUT
    notices: tuple[str, ...] = ()


class Pipeline:
    """The stages of one policy, in order."""

    def __init__(self, policies: StagePolicies) -> None:
        self._trimming: tuple[Stage, ...] = tuple(trimming_stages(policies))
        self._leaves_plain_text_alone = all(
            stage.has_nothing_to_do(TALK) for stage in self._trimming
        )

    def has_nothing_to_do(self, shape: MessageFeatures) -> bool:
        """Return whether no trimming stage has anything to do, by the message features alone."""
        if shape.is_plain and not shape.longest_result:
            return self._leaves_plain_text_alone
        for stage in self._trimming:  # noqa: SIM110 - a generator costs as much as all checks
            if not stage.has_nothing_to_do(shape):
                return False
        return True

    def trim(self, conversation: Conversation, context: StageContext) -> Trimmed:
        """Run the trimming stages, which apply to every request."""
        trimmed = Trimmed(conversation)
        shape = conversation.shape
        for stage in self._trimming:
            if stage.has_nothing_to_do(shape):
                continue
            before = trimmed.conversation
            result = attempt(stage.name, stage, before, context)
            if isinstance(result, Failure):
                trimmed = trimmed._replace(failures=(*trimmed.failures, result))
            elif result.conversation is not before:
                trimmed = _after(trimmed, stage.name, result)
        return trimmed


def attempt(name: str, work: Callable[..., T], *arguments: object) -> T | Failure:
    """Run a stage; if it raises, return the failure as a value, so that the stage is skipped."""
    try:
        return work(*arguments)
    except Exception as error:  # noqa: BLE001 - a stage fails open: the pipeline goes on
        return Failure(name, error)


def _after(trimmed: Trimmed, name: str, result: StageResult) -> Trimmed:
    return Trimmed(
        result.conversation,
        (*trimmed.steps, Step(name, result.conversation)),
        trimmed.failures,
        {**trimmed.offloads, **result.offloads},
        (*trimmed.notices, result.notice) if result.notice else trimmed.notices,
    )
