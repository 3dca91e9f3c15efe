"""The pipeline: runs the stages in order, and is the only place where a failing one is skipped."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message_features import MessageFeatures
from chat_proxy.compaction.apply_clearing import clear
from chat_proxy.compaction.clearing import Clearing
from chat_proxy.compaction.stages.clear_old_media import ClearOldMedia
from chat_proxy.compaction.stages.clear_old_tool_output import ClearOldToolOutput
from chat_proxy.compaction.stages.clear_stage import ClearStage, Pressure
from chat_proxy.compaction.stages.order import StagePolicies, clearing_stages, trimming_stages
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


@dataclass(frozen=True, slots=True)
class Relieved:
    """A conversation after the clear stages; `clearing` includes what was cleared before."""

    conversation: Conversation
    clearing: Clearing
    steps: tuple[Step, ...] = ()
    failures: tuple[Failure, ...] = ()


class Pipeline:
    """The stages of one policy, in order."""

    def __init__(self, policies: StagePolicies) -> None:
        self._trimming: tuple[Stage, ...] = tuple(trimming_stages(policies))
        self._clearing: tuple[ClearStage, ...] = tuple(clearing_stages(policies))
        self._old_max_bytes = policies.clear_old_tool_output.old_max_bytes
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

    def repeat(self, conversation: Conversation, clearing: Clearing) -> tuple[Step, ...]:
        """Repeat an earlier request's clearing byte for byte; return the steps that changed it."""
        steps = []
        for name, part in _by_stage(clearing):
            cleared = clear(conversation, part, self._old_max_bytes)
            if cleared is not conversation:
                steps.append(Step(name, cleared))
                conversation = cleared
        return tuple(steps)

    def relieve(
        self,
        conversation: Conversation,
        done: Clearing,
        pressure_on: Callable[[Conversation], Pressure],
    ) -> Relieved:
        """Run the clear stages; `done` is what is already cleared in the conversation."""
        relieved = Relieved(conversation, done)
        for stage in self._clearing:
            outcome = attempt(stage.name, self._clear, stage, relieved, pressure_on)
            if isinstance(outcome, Failure):
                relieved = replace(relieved, failures=(*relieved.failures, outcome))
            else:
                relieved = outcome
        return relieved

    def _clear(
        self,
        stage: ClearStage,
        before: Relieved,
        pressure_on: Callable[[Conversation], Pressure],
    ) -> Relieved:
        conversation = before.conversation
        more = stage(conversation, before.clearing, pressure_on(conversation))
        cleared = clear(conversation, more, self._old_max_bytes) if more else conversation
        if cleared is conversation:
            return before
        steps = (*before.steps, Step(stage.name, cleared))
        return replace(before, conversation=cleared, clearing=before.clearing | more, steps=steps)


def attempt(name: str, work: Callable[..., T], *arguments: object) -> T | Failure:
    """Run a stage; if it raises, return the failure as a value, so that the stage is skipped."""
    try:
        return work(*arguments)
    except Exception as error:  # noqa: BLE001 - a stage fails open: the pipeline goes on
        return Failure(name, error)


def _by_stage(clearing: Clearing) -> Iterator[tuple[str, Clearing]]:
    yield ClearOldToolOutput.name, replace(clearing, media=frozenset())
    yield ClearOldMedia.name, Clearing(media=clearing.media)


def _after(trimmed: Trimmed, name: str, result: StageResult) -> Trimmed:
    return Trimmed(
        result.conversation,
        (*trimmed.steps, Step(name, result.conversation)),
        trimmed.failures,
        {**trimmed.offloads, **result.offloads},
        (*trimmed.notices, result.notice) if result.notice else trimmed.notices,
    )
