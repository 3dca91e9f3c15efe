import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.chat.shapes import (
    RECORDED,
    Fields,
    calls,
    conversation,
    image,
    odd_messages,
    ordinary_messages,
    result,
    system,
    text,
    user,
)
from tests.unit.compaction.stages.looking import VIDEO, limit, looks

IMAGES = st.sampled_from(
    [user([image()]), result("x", [text("shot"), image()]), system([image()]), user([VIDEO])]
)
FLAGS = st.booleans()
TURNS = st.integers(0, 3)
HISTORIES = st.lists(ordinary_messages | IMAGES | odd_messages, max_size=12)


@st.composite
def _runs(draw: st.DrawFn) -> list[Fields]:
    """Return an agent's history with an image, whose results may come late or out of order."""
    messages: list[Fields] = [system()]
    late: list[Fields] = []
    for turn in range(draw(st.integers(1, 4))):
        messages.append(looks())
        messages += late
        late = []
        for step in range(draw(st.integers(0, 2))):
            ids = [f"{turn}-{step}-{call}" for call in range(draw(st.integers(1, 3)))]
            results = draw(st.permutations([result(name) for name in ids]))
            on_time = draw(st.integers(0, len(results)))
            messages += [calls(*ids), *results[:on_time]]
            late += results[on_time:]
    return [*messages, *late]


@given(_runs(), FLAGS, TURNS)
def test_every_call_keeps_its_results_and_every_result_its_call(
    messages: list[Fields], keep_system: bool, turns: int
) -> None:
    """BUGS 1, 2."""
    kept = limit(conversation(*messages), system=keep_system, turns=turns).conversation

    called = [name for message in kept.messages for name in message.call_ids]
    answered = [message.answers for message in kept.messages if message.is_tool_result]
    assert sorted(called) == sorted(filter(None, answered))
    assert len(called) == len(answered)


@given(HISTORIES, FLAGS, TURNS)
def test_groups_stay_or_go_as_one(messages: list[Fields], keep_system: bool, turns: int) -> None:
    """BUGS 1, 2."""
    given = conversation(*messages)

    kept = set(limit(given, system=keep_system, turns=turns).conversation.origins)

    for group in given.groups:
        members = {i for i in range(*group) if not given.messages[i].is_instruction}
        assert members <= kept or not members & kept


@given(HISTORIES, FLAGS, TURNS)
def test_never_more_messages_and_never_other_ones(
    messages: list[Fields], keep_system: bool, turns: int
) -> None:
    """BUGS 42."""
    kept = limit(conversation(*messages), system=keep_system, turns=turns).conversation

    assert bool(kept) == bool(messages)
    assert list(kept.origins) == sorted({origin or 0 for origin in kept.origins})
    for fields, origin in zip(kept.fields, kept.origins, strict=True):
        assert fields is messages[origin or 0]


@given(HISTORIES, TURNS)
def test_every_instruction_stays(messages: list[Fields], turns: int) -> None:
    """BUGS 23."""
    given = conversation(*messages)

    kept = limit(given, turns=turns).conversation

    wanted = [message for message in given.messages if message.is_instruction]
    assert [message for message in kept.messages if message.is_instruction] == wanted


@given(HISTORIES, FLAGS, TURNS)
def test_the_current_turn_stays_whole(
    messages: list[Fields], keep_system: bool, turns: int
) -> None:
    """BUGS 32, 38."""
    given = conversation(*messages)

    kept = limit(given, system=keep_system, turns=turns).conversation

    if given.current_turn:
        start = given.current_turn.start
        assert kept.messages[-(len(given) - start) :] == given.messages[start:]


@given(HISTORIES, FLAGS, TURNS)
def test_a_second_pass_finds_nothing_to_do(
    messages: list[Fields], keep_system: bool, turns: int
) -> None:
    once = limit(conversation(*messages), system=keep_system, turns=turns).conversation

    assert limit(once, system=keep_system, turns=turns).conversation is once


@given(HISTORIES, FLAGS, TURNS)
def test_the_clients_messages_are_never_changed(
    messages: list[Fields], keep_system: bool, turns: int
) -> None:
    before = copy.deepcopy(messages)

    limit(conversation(*messages), system=keep_system, turns=turns)

    assert messages == before


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_clients_lose_only_older_turns(name: str) -> None:
    given = conversation(*RECORDED[name])
    wanted = {"opencode": [0, 7]}.get(name, list(range(len(given))))

    assert list(limit(given).conversation.origins) == wanted
