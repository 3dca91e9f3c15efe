"""The structure of a fold: instructions, the folded text, what is carried over, the tail."""

import copy
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation, answered_until, carried
from chat_proxy.compaction.planner.forms import FoldOption, Goal, Planner
from chat_proxy.compaction.summary.commands import COMPLETE
from chat_proxy.compaction.summary.fold import ACKNOWLEDGEMENT, fold
from tests.support.strict_template import complaints, well_formed
from tests.unit.chat.shapes import (
    RECORDED,
    SURROGATE,
    Fields,
    calls,
    conversation,
    developer,
    histories,
    result,
    says,
    system,
    user,
)
from tests.unit.compaction.planner.views import AGEING, BUDGET, view_of

ACK = says(ACKNOWLEDGEMENT)
SUMMARY = user("a summary")


def folded(end: int, *messages: Fields) -> list[Fields]:
    return list(fold(conversation(*messages), end, "a summary").fields)


def dumped(talk: Conversation) -> bytes:
    return orjson.dumps(list(talk.fields)).removesuffix(b"]")


def test_a_fold_keeps_the_instructions_and_the_tail() -> None:
    """BUGS 3, BUGS 5, BUGS 6, BUGS 23, BUGS 46"""
    head, tail = [system(), developer()], [user("c"), says("d"), user("e")]

    assert folded(4, *head, user("a"), says("b"), *tail) == [*head, SUMMARY, ACK, *tail]


def test_a_turn_cut_inside_keeps_its_question_before_its_later_steps() -> None:
    """BUGS 24"""
    given = (user("a"), says("b"), user("task"), user("more"), calls("x"), result("x"), calls("y"))

    assert folded(6, *given) == [SUMMARY, ACK, user("task"), user("more"), calls("y")]


def test_users_that_had_an_answer_between_them_do_not_follow_each_other() -> None:
    """BUGS 4"""
    group = (calls("x", "y"), result("x"), user("hurry"), result("y"))

    assert folded(5, user("task"), *group, says("b")) == [
        SUMMARY,
        ACK,
        user("task"),
        ACK,
        user("hurry"),
        says("b"),
    ]


def test_a_tail_that_begins_with_the_model_follows_the_summary_at_once() -> None:
    """BUGS 4"""
    assert folded(1, says("a"), says("b"), user("c")) == [SUMMARY, says("b"), user("c")]
    assert folded(1, says("a"), calls("x"), result("x")) == [SUMMARY, calls("x"), result("x")]


def test_a_fold_of_everything_ends_with_the_summary() -> None:
    assert folded(3, system(), user("a"), says("b")) == [system(), SUMMARY]


def test_a_boundary_among_the_instructions_repeats_none_of_them() -> None:
    assert folded(0, system(), user("a")) == [system(), SUMMARY, ACK, user("a")]


def test_an_answered_command_right_behind_the_fold_is_left_out() -> None:
    """No text twice: the reply repeats the summary."""
    done = [user("/compact"), says(f"{COMPLETE}\nmany words")]

    assert folded(2, user("a"), says("b"), *done, user("c")) == [SUMMARY, ACK, user("c")]
    assert folded(2, user("a"), says("b"), *done, *done, user("c")) == [SUMMARY, ACK, user("c")]


def test_a_command_that_something_else_answered_stays() -> None:
    other = [user("/compact"), says("What do you mean?")]

    assert folded(2, user("a"), says("b"), *other, user("c")) == [SUMMARY, ACK, *other, user("c")]


def test_messages_keep_their_place_in_the_clients_list() -> None:
    talk = conversation(system(), user(), says(), user(), calls("x"), result("x"), says())

    after = fold(talk.only([0, 3, 4, 5, 6]), 4, "a summary")

    assert after.origins == [0, None, None, 3, 6]
    assert after.messages[3].fields is talk.fields[3]


@given(well_formed(), st.data())
def test_strict_templates_take_a_fold_at_any_seam(
    messages: list[Fields], data: st.DataObject
) -> None:
    """BUGS 1, BUGS 2, BUGS 3, BUGS 4, BUGS 5"""
    talk = conversation(*messages)
    assert complaints(messages) == []

    after = fold(talk, data.draw(st.sampled_from(talk.seams)), "a summary")

    assert complaints(list(after.fields)) == []


@given(well_formed(), st.integers(0, 2_000), st.integers(0, 3_000))
def test_strict_templates_take_what_was_planned_and_keep_the_question(
    messages: list[Fields], target: int, beside: int
) -> None:
    """BUGS 4, BUGS 24, BUGS 38"""
    view = view_of(*messages, beside=beside)
    talk = view.conversation
    goal = Goal(target, target + 200, target + 400)
    plan = Planner(view, AGEING, BUDGET).plan(goal, FoldOption(is_allowed=True))

    after = fold(talk, plan.end, "a summary") if plan and plan.folds else talk

    assert complaints(list(after.fields)) == []
    assert talk.current_turn is not None
    assert after.current_turn is not None
    asked = [talk.fields[index] for index in talk.current_turn.users]
    assert [after.fields[index] for index in after.current_turn.users] == asked
    assert after.fields[-1] is messages[-1]


@given(histories, histories, st.data())
def test_a_grown_conversation_folds_to_a_continuation_of_the_same_bytes(
    history: list[Fields], more: list[Fields], data: st.DataObject
) -> None:
    """BUGS 21, BUGS 44"""
    history = [message for message in history if message.get("content") != SURROGATE]
    more = [message for message in more if message.get("content") != SURROGATE]
    short, grown = conversation(*history), conversation(*history, *more)
    end = data.draw(st.sampled_from(short.seams))

    # Nothing is folded that has no answer yet: a question must not be cut from what follows it.
    if end in grown.seams and grown.instructions <= end <= answered_until(short):
        assert dumped(fold(grown, end, "s")).startswith(dumped(fold(short, end, "s")))


@given(histories, st.data())
def test_a_fold_makes_no_neighbours_that_the_client_did_not_send(
    history: list[Fields], data: st.DataObject
) -> None:
    """BUGS 1, BUGS 4"""
    untouched = copy.deepcopy(history)
    talk = conversation(*history)

    after = fold(talk, data.draw(st.sampled_from(talk.seams)), "s")

    assert history == untouched
    for before, behind in pairwise(zip(after.messages, after.origins, strict=True)):
        if before[0].role == behind[0].role in ("user", "assistant"):
            assert before[1] is not None
            assert behind[1] == before[1] + 1


@given(histories, st.data())
def test_a_group_is_folded_or_kept_as_a_whole(history: list[Fields], data: st.DataObject) -> None:
    """BUGS 1, BUGS 2"""
    talk = conversation(*history)
    end = data.draw(st.sampled_from(talk.seams))

    after = fold(talk, end, "s")

    left = [origin for origin in after.origins if origin is not None]
    assert left == [*range(talk.instructions), *carried(talk, end), *range(end, len(talk))]
    assert all(group.end <= end or group.start >= end for group in talk.groups)


@pytest.mark.parametrize("client", RECORDED)
def test_recorded_clients_fold_at_every_seam_without_new_complaints(client: str) -> None:
    talk = conversation(*RECORDED[client])
    lenient: dict[str, Any] = {"allow_late_system": True, "allow_user_after_tools": True}

    for end in talk.seams:
        after = list(fold(talk, end, "s").fields)
        found = {line.partition(": ")[2] for line in complaints(after, **lenient)}
        assert found <= {
            line.partition(": ")[2] for line in complaints(RECORDED[client], **lenient)
        }
