import copy
from typing import Any

import pytest
from hypothesis import given

from chat_proxy.chat.conversation import Conversation
from chat_proxy.chat.message import Message
from tests.unit.chat.shapes import (
    RECORDED,
    calls,
    conversation,
    developer,
    histories,
    result,
    says,
    system,
    user,
)


def _groups(*messages: dict[str, Any]) -> list[tuple[int, int]]:
    return [(group.start, group.end) for group in conversation(*messages).groups]


def _turns(*messages: dict[str, Any]) -> list[tuple[int, int, tuple[int, ...]]]:
    return [(turn.start, turn.end, turn.users) for turn in conversation(*messages).turns]


@pytest.mark.parametrize("messages", [None, {}, "x", [user(), "x"], [None]])
def test_what_is_no_list_of_objects_is_not_understood(messages: object) -> None:
    assert Conversation.of(messages) is None


def test_an_empty_conversation_has_one_seam_and_no_turn() -> None:
    empty = conversation()

    assert (empty.groups, empty.turns, empty.seams, empty.current_turn) == ((), (), (0,), None)
    assert (len(empty), empty.instructions) == (0, 0)


def test_leading_instructions_are_counted() -> None:
    assert conversation(system(), developer(), user(), system()).instructions == 2
    assert conversation(system(), developer()).instructions == 2
    assert conversation(system(), developer()).turns == ()
    assert conversation(system(), developer()).seams == (2,)


def test_parallel_calls_and_their_results_are_one_group() -> None:
    given = (user(), calls("a", "b"), result("b"), result("a"), says())

    assert _groups(*given) == [(0, 1), (1, 4), (4, 5)]


def test_a_group_holds_what_stands_between_call_and_result() -> None:
    given = (user(), calls("a", "b"), result("a"), user("hurry"), result("b"), says())

    assert _groups(*given) == [(0, 1), (1, 5), (5, 6)]
    assert _turns(*given) == [(0, 6, (0, 3))]


def test_groups_that_overlap_are_one() -> None:
    given = (calls("a"), calls("b"), result("a"), result("b"), says())

    assert _groups(*given) == [(0, 4), (4, 5)]


def test_a_repeated_id_belongs_to_the_nearest_call_that_waits() -> None:
    reused = (calls("0"), result("0"), user(), calls("0"), result("0"))
    stacked = (calls("0"), says(), calls("0"), result("0"), result("0"))

    assert _groups(*reused) == [(0, 2), (2, 3), (3, 5)]
    assert _groups(*stacked) == [(0, 5)]


def test_a_second_result_stays_with_the_call_it_follows() -> None:
    assert _groups(calls("a"), result("a"), result("a")) == [(0, 3)]
    assert _groups(calls("a"), result("a"), user(), result("a")) == [(0, 2), (2, 3), (3, 4)]


def test_missing_and_orphaned_results_stand_alone() -> None:
    given = (calls("a"), user(), result("z"), calls("b"), result("y"), result("b"))

    assert _groups(*given) == [(0, 1), (1, 2), (2, 3), (3, 6)]
    assert _groups(result("a"), calls("a")) == [(0, 1), (1, 2)]


def test_legacy_functions_and_calls_without_ids_are_paired_by_place() -> None:
    legacy = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
    answer = {"role": "function", "name": "f", "content": "1"}
    nameless = says(tool_calls=[{"function": {"name": "f"}}])

    assert _groups(legacy, answer, legacy, answer) == [(0, 2), (2, 4)]
    assert _groups(legacy, user(), answer) == [(0, 3)]
    assert _groups(legacy, calls("a"), answer) == [(0, 1), (1, 3)]
    assert _groups(nameless, result("lost"), result("lost too")) == [(0, 3)]
    assert _groups(calls("a", "b"), {"role": "tool"}, {"role": "tool"}) == [(0, 3)]
    assert _groups(answer, user(), answer) == [(0, 1), (1, 2), (2, 3)]


def test_a_turn_begins_with_a_run_of_user_messages() -> None:
    given = (system(), user(), user(), says(), system(), user(), calls("a"), result("a"))

    assert _turns(*given) == [(1, 5, (1, 2)), (5, 8, (5,))]
    assert conversation(*given).current_turn == (5, 8, (5,))


def test_what_stands_before_the_first_user_is_a_turn_without_users() -> None:
    assert _turns(system(), says(), user(), says()) == [(1, 2, ()), (2, 4, (2,))]
    assert _turns(says()) == [(0, 1, ())]


def test_seams_are_the_borders_of_groups_after_the_instructions() -> None:
    given = (system(), system(), user(), calls("a"), result("a"), says())

    assert conversation(*given).seams == (2, 3, 5, 6)
    assert conversation(*given[2:]).seams == (0, 1, 3, 4)


def test_the_same_messages_give_the_very_same_conversation() -> None:
    given = conversation(user(), says())
    other = given.only([0])

    assert given.with_messages({}) is given
    assert given.only([0, 1]) is given
    assert other.messages == given.messages[:1]
    assert repr(other) == "Conversation(1 messages)"


def test_a_message_that_is_changed_keeps_its_place_in_the_clients_list() -> None:
    given = conversation(system(), user(), says(), user())

    kept = given.only([0, 3])
    changed = kept.with_messages({1: kept.messages[1].with_content("other")})

    assert list(given.origins) == [0, 1, 2, 3]
    assert list(changed.origins) == [0, 3]
    assert changed.messages[0] == given.messages[0]
    assert changed.messages[1].content == "other"


@pytest.mark.parametrize(
    ("name", "groups", "turns"),
    [
        ("openai-py", [1, 1, 3, 2], 1),
        ("qwen-code", [1, 1, 2, 2, 1], 2),
        ("gptme", [1] * 6, 1),
        ("aider", [1] * 4, 2),
        ("mini-swe", [1, 1, 2], 1),
        ("opencode", [1, 1, 1, 1, 3, 1], 2),
        ("pydantic-ai", [1, 1, 1, 1], 1),
        ("plain", [1], 1),
    ],
)
def test_recorded_shapes_group_as_their_clients_meant(
    name: str, groups: list[int], turns: int
) -> None:
    given = conversation(*RECORDED[name])

    assert [group.end - group.start for group in given.groups] == groups
    assert len(given.turns) == turns


@given(histories)
def test_groups_and_turns_cover_everything_once(messages: list[dict[str, Any]]) -> None:
    given = conversation(*messages)
    first = given.instructions

    assert [i for group in given.groups for i in range(*group)] == list(range(len(messages)))
    assert [i for t in given.turns for i in range(t.start, t.end)] == [*range(first, len(messages))]
    assert [i for turn in given.turns for i in turn.users] == [
        i for i, message in enumerate(given.messages) if message.is_user
    ]


@given(histories)
def test_seams_never_split_a_group_and_turns_begin_at_seams(
    messages: list[dict[str, Any]],
) -> None:
    given = conversation(*messages)

    for seam in given.seams:
        assert seam >= given.instructions
        assert not any(group.start < seam < group.end for group in given.groups)
    assert {turn.start for turn in given.turns} <= set(given.seams)
    assert given.seams[-1] == len(given)


@given(histories)
def test_every_result_is_in_the_group_of_its_call(messages: list[dict[str, Any]]) -> None:
    given = conversation(*messages)
    group_of = [number for number, group in enumerate(given.groups) for _ in range(*group)]

    for result_index, call_index in _pairs(given.messages):
        assert group_of[result_index] == group_of[call_index]


def _pairs(messages: tuple[Message, ...]) -> list[tuple[int, int]]:
    """Pair each result with the nearest call before it that has its id and no result yet."""
    waiting = [list(message.call_ids) for message in messages]
    pairs = []
    for index, message in enumerate(messages):
        if not message.is_tool_result or message.answers is None:
            continue
        for caller in range(index - 1, -1, -1):
            if messages[caller].is_assistant and message.answers in waiting[caller]:
                waiting[caller].remove(message.answers)
                pairs.append((index, caller))
                break
    return pairs


@given(histories, histories)
def test_appended_messages_never_open_a_seam_in_what_was_there(
    messages: list[dict[str, Any]], more: list[dict[str, Any]]
) -> None:
    before = set(conversation(*messages).seams)
    after = {seam for seam in conversation(*messages, *more).seams if seam <= len(messages)}

    # A later result may close a call that waited, so a border may vanish but none may appear.
    assert after <= before


@given(histories)
def test_looking_at_a_conversation_changes_nothing(messages: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(messages)
    given = conversation(*messages)

    _ = (given.groups, given.turns, given.seams, given.current_turn)

    assert messages == before
