"""The pipeline: the order of its stages, what it gathers from them, and stages that fail."""

from copy import deepcopy
from typing import Any

import pytest

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.chat.message_features import MessageFeatures
from chat_proxy.compaction.pipeline import Pipeline, attempt
from chat_proxy.compaction.stages.limit_vision_history import LimitVisionHistoryPolicy
from chat_proxy.compaction.stages.order import StagePolicies, trimming_stages
from chat_proxy.compaction.stages.stage import StageContext, StageResult
from chat_proxy.compaction.stages.strip_media import StripMediaPolicy
from chat_proxy.compaction.stages.truncate_tool_output import TruncateToolOutputPolicy
from tests.unit.chat.shapes import calls, conversation, image, result, says, system, text, user

LIMIT = 300
SEEN = StageContext()
BLIND = StageContext(can_see=False)


def policies(
    *,
    vision: bool = True,
    strip: bool = True,
    truncate: bool = True,
) -> StagePolicies:
    return StagePolicies(
        LimitVisionHistoryPolicy(enabled=vision, keep_system=True, keep_last_n_turns=0),
        StripMediaPolicy(enabled=strip),
        TruncateToolOutputPolicy(enabled=truncate, max_bytes=LIMIT, exempt_tools=frozenset()),
    )


class Says:
    """A stage that writes its name behind the first message, and remembers what it got."""

    def __init__(self, name: str, notice: str = "", offloads: dict[str, str] | None = None) -> None:
        self.name = name
        self.got: list[Conversation] = []
        self._notice = notice
        self._offloads = offloads or {}

    def has_nothing_to_do(self, _: MessageFeatures) -> bool:
        return False

    def __call__(self, conversation: Conversation, _: StageContext) -> StageResult:
        self.got.append(conversation)
        first = conversation.messages[0]
        longer = Message({**first.fields, "content": f"{first.content} {self.name}"})
        changed = conversation.with_messages({0: longer})
        return StageResult(changed, self._offloads, self._notice)


class Idle:
    """A stage that has nothing to do, and yet something to say."""

    name = "idle"

    def has_nothing_to_do(self, _: MessageFeatures) -> bool:
        return False

    def __call__(self, conversation: Conversation, _: StageContext) -> StageResult:
        return StageResult(conversation, {"id": "text"}, "nothing")


class Fails:
    """A stage that fails."""

    name = "fails"

    def has_nothing_to_do(self, _: MessageFeatures) -> bool:
        return False

    def __call__(self, *_: object) -> Any:
        raise KeyError("secret")


def pipeline_of(*stages: Any) -> Pipeline:
    """A pipeline with these stages."""
    pipeline = Pipeline(policies())
    pipeline._trimming = stages
    return pipeline


def contents(found: Conversation) -> list[Any]:
    return [fields["content"] for fields in found.fields]


# Order


def test_the_stages_stand_in_their_order() -> None:
    assert [stage.name for stage in trimming_stages(policies())] == [
        "limit_vision_history",
        "strip_media",
        "truncate_tool_output",
    ]


@pytest.mark.parametrize(
    ("switch", "name"),
    [
        ("vision", "limit_vision_history"),
        ("strip", "strip_media"),
        ("truncate", "truncate_tool_output"),
    ],
)
def test_a_stage_that_is_off_is_not_there(switch: str, name: str) -> None:
    """BUGS 41: off means off."""
    chosen = policies(**{switch: False})

    names = [stage.name for stage in trimming_stages(chosen)]

    assert name not in names
    assert len(names) == 2


# Trimming


def test_a_conversation_that_needs_nothing_comes_back_itself() -> None:
    given = conversation(system(), user(), calls("1"), result("1"), says())

    trimmed = Pipeline(policies()).trim(given, SEEN)

    assert trimmed.conversation is given
    assert (trimmed.steps, trimmed.failures, trimmed.notices) == ((), (), ())
    assert trimmed.offloads == {}


def test_stages_work_one_behind_the_other() -> None:
    one, two = Says("one"), Says("two")
    given = conversation(user("hi"))

    trimmed = pipeline_of(one, two).trim(given, SEEN)

    assert contents(trimmed.conversation) == ["hi one two"]
    assert one.got == [given]
    assert two.got == [trimmed.steps[0].conversation]
    assert [step.stage for step in trimmed.steps] == ["one", "two"]
    assert trimmed.steps[-1].conversation is trimmed.conversation


def test_notices_and_offloads_are_gathered_from_stages_that_changed_something() -> None:
    """BUGS 39: what was not done is not reported as done."""
    one = Says("one", "first sentence", {"a": "A"})
    two = Says("two", offloads={"b": "B"})
    three = Says("three", "second sentence")

    trimmed = pipeline_of(one, Idle(), two, three).trim(conversation(user()), SEEN)

    assert trimmed.notices == ("first sentence", "second sentence")
    assert trimmed.offloads == {"a": "A", "b": "B"}
    assert [step.stage for step in trimmed.steps] == ["one", "two", "three"]


def test_a_stage_that_fails_is_passed_by() -> None:
    given = conversation(user("hi"))

    trimmed = pipeline_of(Fails(), Says("one"), Fails()).trim(given, SEEN)

    assert contents(trimmed.conversation) == ["hi one"]
    assert [failure.stage for failure in trimmed.failures] == ["fails", "fails"]
    assert isinstance(trimmed.failures[0].error, KeyError)
    assert [step.stage for step in trimmed.steps] == ["one"]


def test_where_every_stage_fails_the_conversation_comes_back_itself() -> None:
    given = conversation(user("hi"))

    trimmed = pipeline_of(Fails(), Fails()).trim(given, SEEN)

    assert trimmed.conversation is given
    assert len(trimmed.failures) == 2


def test_who_ends_the_process_is_not_passed_by() -> None:
    def leave() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt("leaves", leave)


def test_the_real_stages_work_together() -> None:
    messages = [
        system(),
        user([image()]),
        says(),
        user([image()]),
        calls("1"),
        result("1", [image(), text("x" * 900)]),
    ]
    given = conversation(*messages)
    before = deepcopy(messages)

    seen = Pipeline(policies()).trim(given, SEEN)
    blind = Pipeline(policies()).trim(given, BLIND)

    assert [step.stage for step in seen.steps] == ["limit_vision_history", "truncate_tool_output"]
    assert [step.stage for step in blind.steps] == ["strip_media", "truncate_tool_output"]
    assert (len(seen.conversation), len(blind.conversation)) == (4, 6)
    assert list(given.fields) == before
