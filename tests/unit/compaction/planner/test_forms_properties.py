"""What holds for every plan, whatever the conversation, the window and the fixed part."""

import copy
import json
from typing import NamedTuple, get_args

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from chat_proxy.compaction.ageing.apply import age
from chat_proxy.compaction.ageing.treatments import Place, Treatments
from chat_proxy.compaction.drop_media import without_current_media
from chat_proxy.compaction.planner.forms import (
    SMALLEST_CALL_BYTES,
    SMALLEST_ROOM,
    FoldOption,
    Goal,
    Planner,
)
from chat_proxy.compaction.planner.plan import Form, Plan
from chat_proxy.compaction.planner.view import View
from chat_proxy.compaction.planner.working import FRAME_TOKENS, SMALLEST_RESULT_BYTES
from chat_proxy.compaction.summary.fold import fold
from tests.unit.compaction.planner.views import (
    AGEING,
    BUDGET,
    MESSAGE_TOKENS,
    histories,
    quarter,
    size_of,
    view_of,
)

_HEALTH = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
thorough = settings(deadline=None, suppress_health_check=_HEALTH)
ORDER: tuple[str, ...] = get_args(Form)
EARLY = ORDER[: ORDER.index("newest steps shortened")]
ANY_FOLD = FoldOption(is_allowed=True)


class Case(NamedTuple):
    """A view, and the goal of its plan."""

    view: View
    goal: Goal

    @property
    def planner(self) -> Planner:
        return Planner(self.view, AGEING, BUDGET)

    def plan(self, **limits: int) -> Plan | None:
        return self.planner.plan(self.goal._replace(**limits), ANY_FOLD)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return a conversation in a window of 2k to 128k, of which 5 to 95 % are fixed."""
    window = draw(st.sampled_from([2_048, 4_096, 8_192, 32_768, 131_072]))
    count = draw(st.sampled_from([len, quarter]))
    messages = draw(histories(window if count is len else 4 * window))
    beside = window * draw(st.integers(5, 95)) // 100
    view = view_of(*messages, window=window, beside=beside, count=count)
    return Case(view, Goal(view.target, view.budget.limit, view.budget.hard_limit))


def newest_step(view: View) -> range:
    """Return the last step, if it belongs to the current turn or has no answer yet."""
    given = view.conversation
    turn = given.current_turn
    steps = [group for group in given.groups if given.messages[group.start].is_assistant]
    if not steps or turn is None:
        return range(0)
    is_open = steps[-1].start >= turn.start or given.messages[steps[-1].start].calls_tools
    return range(*steps[-1]) if is_open else range(0)


def smallest_tokens(view: View) -> int:
    """Return the tokens of what must stay, counted after the treatments are applied."""
    given = view.conversation
    turn = given.current_turn
    assert turn is not None
    newest = newest_step(view)
    places = [Place(index) for index in newest]
    everything = Treatments(
        short=dict.fromkeys(places, SMALLEST_RESULT_BYTES),
        calls=dict.fromkeys(places, SMALLEST_CALL_BYTES),
    )
    aged = without_current_media(age(given, everything))
    kept = {*turn.users, *newest}
    return view.fixed + sum(size_of(aged, index, view.count) for index in kept)


@settings(thorough, max_examples=100)
@given(cases())
def test_whenever_the_smallest_form_fits_there_is_a_plan_that_fits(case: Case) -> None:
    """DESIGN 1.11"""
    needed = smallest_tokens(case.view) + SMALLEST_ROOM + FRAME_TOKENS
    assume(needed <= case.goal.hard_limit)

    plan = case.plan()

    assert plan is not None
    assert plan.tokens <= case.goal.hard_limit


@settings(thorough, max_examples=50)
@given(cases())
def test_a_plan_is_never_larger_than_the_hard_limit_and_says_so(case: Case) -> None:
    plan = case.plan()

    if plan is not None:
        assert plan.tokens <= case.goal.hard_limit
        assert plan.folds == (
            plan.form not in ("unchanged", "superseded") and plan.room is not None
        )


@settings(thorough, max_examples=50)
@given(cases())
def test_instructions_and_the_current_request_are_never_folded(case: Case) -> None:
    """BUGS 23, 38, 46"""
    given = case.view.conversation
    plan = case.plan()
    assume(plan is not None and plan.folds)
    assert plan is not None
    turn = given.current_turn
    assert turn is not None

    folded = fold(given, plan.end, "the folded text")

    assert folded.fields[: given.instructions] == given.fields[: given.instructions]
    assert set(turn.users) <= set(folded.origins)
    assert all(not set(turn.users) & {place.origin for place in places} for places in _places(plan))
    assert folded.fields[-1] is given.fields[-1]


@settings(thorough, max_examples=50)
@given(cases())
def test_a_fold_ends_at_a_seam(case: Case) -> None:
    """BUGS 1, 2"""
    plan = case.plan()

    if plan is not None:
        assert plan.end in case.view.conversation.seams
        assert plan.end <= max(case.view.smallest_end, case.view.current_start)


@settings(thorough, max_examples=50)
@given(cases())
def test_the_newest_two_steps_never_become_lines(case: Case) -> None:
    newest = {index for step in case.view.newest_steps for index in range(*step)}

    for plan in (case.plan(), case.planner.smallest()):
        if plan is not None:
            assert not newest & {place.origin for place in plan.treatments.lines}


@settings(thorough, max_examples=50)
@given(cases())
def test_results_of_protected_tools_do_not_age_before_the_last_forms(case: Case) -> None:
    plan = case.plan()
    assume(plan is not None and plan.form in EARLY)
    assert plan is not None

    aged = {place.origin for place in (*plan.treatments.lines, *plan.treatments.short)}
    for index, message in enumerate(case.view.conversation.fields):
        call = message.get("tool_calls") or [{"function": {"name": ""}}]
        if call[0]["function"]["name"] == "skill":
            assert index + 1 not in aged


@settings(thorough, max_examples=50)
@given(cases())
def test_the_same_conversation_gives_the_same_plan(case: Case) -> None:
    """BUGS 44"""
    before = json.dumps(case.view.conversation.fields)
    messages = copy.deepcopy(case.view.conversation.fields)
    again = view_of(
        *messages, window=case.view.budget.window, beside=case.view.beside, count=case.view.count
    )

    assert case.plan() == case.plan() == Case(again, case.goal).plan()
    assert json.dumps(case.view.conversation.fields) == before


@settings(thorough, max_examples=50)
@given(cases(), st.integers(1, 5_000))
def test_a_larger_limit_never_gives_a_deeper_form(case: Case, more: int) -> None:
    plan = case.plan()
    roomier = case.plan(limit=case.goal.limit + more, hard_limit=case.goal.hard_limit + more)

    if plan is not None:
        assert roomier is not None
        assert ORDER.index(roomier.form) <= ORDER.index(plan.form)


@settings(thorough, max_examples=50)
@given(cases())
def test_only_what_is_shown_is_treated(case: Case) -> None:
    """What is folded needs no treatment, and what is treated is really smaller."""
    plan = case.plan()
    assume(plan is not None)
    assert plan is not None

    given = case.view.conversation
    aged = age(given, plan.treatments.from_origin(plan.end))
    for index, fields in enumerate(aged.fields):
        if fields is not given.fields[index]:
            assert index in plan.reasons


@settings(thorough, max_examples=100)
@given(cases())
def test_a_prompt_made_by_a_plan_is_about_as_large_as_the_plan_says(case: Case) -> None:
    """A line may be longer than assumed, and a note of something cut takes a little."""
    assume(case.view.count is quarter)
    plan = case.plan()
    assume(plan is not None)
    assert plan is not None

    treated = len(plan.treatments.lines) + len(plan.treatments.short) + len(plan.treatments.calls)
    assert tokens_of(case.view, plan) <= plan.tokens + 5 * treated + 30


def tokens_of(view: View, plan: Plan) -> int:
    """Return the tokens of the prompt that a plan makes, with a folded text that fills its room."""
    sent = age(view.conversation, plan.treatments.from_origin(plan.end if plan.folds else 0))
    if plan.room is not None:
        sent = fold(sent, plan.end, "x" * 4 * (plan.room - MESSAGE_TOKENS))
    if plan.current_media is not None:
        sent = without_current_media(sent, plan.current_media)
    return view.beside + sum(size_of(sent, index, view.count) for index in range(len(sent)))


def _places(plan: Plan) -> list[set[Place]]:
    treatments = plan.treatments
    return [set(treatments.lines), set(treatments.short), set(treatments.calls)]
