"""The pipeline: the order of its stages, what it gathers from them, and stages that fail."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from chat_proxy.chat.message_features import MessageFeatures
from chat_proxy.compaction.apply_clearing import RESULT_NOTE
from chat_proxy.compaction.clearing import Clearing, Place
from chat_proxy.compaction.pipeline import Pipeline, attempt
from chat_proxy.compaction.stages.clear_old_media import ClearOldMediaPolicy
from chat_proxy.compaction.stages.clear_old_tool_output import ClearOldToolOutputPolicy
from chat_proxy.compaction.stages.clear_stage import Pressure
from chat_proxy.compaction.stages.limit_vision_history import LimitVisionHistoryPolicy
from chat_proxy.compaction.stages.order import StagePolicies, clearing_stages, trimming_stages
from chat_proxy.compaction.stages.stage import StageContext, StageResult
from chat_proxy.compaction.stages.strip_media import StripMediaPolicy
from chat_proxy.compaction.stages.truncate_tool_output import TruncateToolOutputPolicy
from tests.unit.chat.shapes import calls, conversation, image, result, says, system, text, user
from tests.unit.compaction.stages.pressing import at, pressure_on

LIMIT = 300
SEEN = StageContext()
BLIND = StageContext(can_see=False)


def policies(
    *,
    vision: bool = True,
    strip: bool = True,
    truncate: bool = True,
    prune: bool = True,
    media: bool = True,
) -> StagePolicies:
    return StagePolicies(
        LimitVisionHistoryPolicy(enabled=vision, keep_system=True, keep_last_n_turns=0),
        StripMediaPolicy(enabled=strip),
        TruncateToolOutputPolicy(enabled=truncate, max_bytes=LIMIT, exempt_tools=frozenset()),
        ClearOldToolOutputPolicy(
            enabled=prune,
            protect_tokens=100,
            minimum_tokens=100,
            protect_turns=1,
            protected_tools=frozenset(),
            keep_results=1,
            old_max_bytes=100,
        ),
        ClearOldMediaPolicy(enabled=media, keep_user_media=1, keep_tool_media=1),
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


class Clears:
    """A stage that decides to clear one result."""

    def __init__(self, name: str, *places: int) -> None:
        self.name = name
        self.got: list[tuple[Conversation, Clearing, Pressure]] = []
        self._places = at(*places)

    def __call__(self, conversation: Conversation, done: Clearing, pressure: Pressure) -> Clearing:
        self.got.append((conversation, done, pressure))
        return Clearing(results=self._places)


def pipeline_of(*stages: Any) -> Pipeline:
    """A pipeline with these stages, in both of its halves."""
    pipeline = Pipeline(policies())
    pipeline._trimming = pipeline._clearing = stages
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
    assert [stage.name for stage in clearing_stages(policies())] == [
        "clear_old_tool_output",
        "clear_old_media",
    ]


@pytest.mark.parametrize(
    ("switch", "name"),
    [
        ("vision", "limit_vision_history"),
        ("strip", "strip_media"),
        ("truncate", "truncate_tool_output"),
        ("prune", "clear_old_tool_output"),
        ("media", "clear_old_media"),
    ],
)
def test_a_stage_that_is_off_is_not_there(switch: str, name: str) -> None:
    """BUGS 41: off means off."""
    chosen = policies(**{switch: False})

    names = [stage.name for stage in trimming_stages(chosen)]
    names += [stage.name for stage in clearing_stages(chosen)]

    assert name not in names
    assert len(names) == 4


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
        user(),
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


# Repeating

OLD = [user(), calls("1"), result("1", "x" * 500), user([image()]), says(), user()]


def test_what_was_cleared_is_cleared_again_stage_by_stage() -> None:
    given = conversation(*OLD)
    clearing = Clearing(results=at(2), media=at((3, 0)))

    steps = Pipeline(policies()).repeat(given, clearing)

    assert [step.stage for step in steps] == ["clear_old_tool_output", "clear_old_media"]
    assert contents(steps[0].conversation)[2:4] == [RESULT_NOTE, [image()]]
    assert contents(steps[1].conversation)[2:4] == [
        RESULT_NOTE,
        [text("[Old inline media cleared: image/png]")],
    ]


def test_repeating_nothing_takes_no_step() -> None:
    given = conversation(*OLD)

    assert Pipeline(policies()).repeat(given, Clearing()) == ()
    assert Pipeline(policies()).repeat(given, Clearing(results=at(99))) == ()


def test_shortened_results_are_shortened_to_the_same_bytes() -> None:
    given = conversation(*OLD)
    clearing = Clearing(shortened=at(2))

    [first] = Pipeline(policies()).repeat(given, clearing)
    [second] = Pipeline(policies()).repeat(conversation(*OLD, says(), user()), clearing)

    assert contents(first.conversation)[2] == contents(second.conversation)[2]
    assert len(contents(first.conversation)[2]) <= 100


# Relief


def pressing(_: Conversation) -> Pressure:
    raise AssertionError("nobody asked")


def test_each_clear_stage_sees_what_the_one_before_has_left() -> None:
    given = conversation(*OLD, calls("2"), result("2", "y" * 500), says(), user())
    one, two = Clears("one", 2), Clears("two", 7)
    weighed: list[Conversation] = []

    def weigh(found: Conversation) -> Pressure:
        weighed.append(found)
        return pressure_on(found)

    relieved = pipeline_of(one, two).relieve(given, Clearing(), weigh)

    assert [step.stage for step in relieved.steps] == ["one", "two"]
    assert relieved.clearing == Clearing(results=at(2, 7))
    assert two.got[0][:2] == (relieved.steps[0].conversation, Clearing(results=at(2)))
    assert weighed == [given, relieved.steps[0].conversation]
    assert [contents(relieved.conversation)[index] for index in (2, 7)] == [RESULT_NOTE] * 2


def test_what_was_cleared_before_stays_in_the_clearing() -> None:
    done = Clearing(results=at(2))
    given = conversation(*OLD)

    relieved = pipeline_of(Clears("one")).relieve(given, done, pressure_on)

    assert relieved.conversation is given
    assert (relieved.clearing, relieved.steps) == (done, ())


def test_a_decision_that_changes_nothing_is_not_kept() -> None:
    """BUGS 39: a stage without effect is not reported."""
    given = conversation(*OLD)

    relieved = pipeline_of(Clears("one", 99), Clears("two", 0)).relieve(
        given, Clearing(), pressure_on
    )

    assert relieved.conversation is given
    assert (relieved.clearing, relieved.steps) == (Clearing(), ())


@pytest.mark.parametrize("weigh", [pressure_on, pressing])
def test_a_clear_stage_or_scale_that_fails_is_passed_by(
    weigh: Callable[[Conversation], Pressure],
) -> None:
    given = conversation(*OLD)

    relieved = pipeline_of(Fails(), Clears("one", 2)).relieve(given, Clearing(), weigh)

    if weigh is pressing:
        assert relieved.conversation is given
        assert [failure.stage for failure in relieved.failures] == ["fails", "one"]
    else:
        assert relieved.clearing.results == {Place(2)}
        assert [failure.stage for failure in relieved.failures] == ["fails"]


def test_what_the_real_stages_clear_can_be_repeated_to_the_byte() -> None:
    """BUGS 44: a decision gives the same bytes wherever it is carried out."""
    steps = [step for n in range(6) for step in (calls(f"{n}"), result(f"{n}", f"{n}" * 250))]
    given = conversation(system(), user([image()]), says(), user([image()]), *steps, says(), user())
    pipeline = Pipeline(policies())

    relieved = pipeline.relieve(
        given, Clearing(), lambda found: pressure_on(found, window=1_000, trigger=200, excess=900)
    )
    repeated = pipeline.repeat(given, relieved.clearing)

    assert [step.stage for step in relieved.steps] == ["clear_old_tool_output", "clear_old_media"]
    assert repeated[-1].conversation.fields == relieved.conversation.fields
