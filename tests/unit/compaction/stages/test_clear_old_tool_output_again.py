import copy
import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.clearing import Clearing
from chat_proxy.compaction.stages.clear_old_tool_output import ClearOldToolOutputPolicy
from chat_proxy.compaction.tool_results import seen_until
from tests.unit.chat.shapes import Fields, conversation, says, user
from tests.unit.compaction.stages.old_output import (
    EAGER,
    NOTE_TOKENS,
    POLICY,
    RECENT,
    carried_out,
    decided,
)
from tests.unit.compaction.stages.pressing import at, busy_histories, step, turn

# Shortening


def test_what_is_too_new_to_go_is_shortened_if_that_is_needed() -> None:
    given = conversation(*turn("old", 30_000), *turn("mid", 3_000, 3_001, 30_000), *RECENT)
    won = 30_000 - NOTE_TOKENS

    assert decided(given, excess=won) == Clearing(results=at(2))
    assert decided(given, excess=won + 1) == Clearing(results=at(2), shortened=at(8, 10))


def test_without_protected_turns_old_results_are_shortened_too() -> None:
    given = conversation(*turn("old", 30_000), user(), *step("new", 9))

    assert decided(given, replace(POLICY, protect_turns=0), excess=9).shortened == at(2)


def test_a_shortened_result_may_be_cleared_later() -> None:
    given = conversation(*turn("old", 30_000), *RECENT)
    first = decided(given, excess=50_000)
    assert first == Clearing(shortened=at(2))

    grown = conversation(*given.fields, says(), *turn("b", 50_000), *turn("c", 9), *turn("d", 9))
    second = decided(carried_out(grown, first), replace(POLICY, minimum_tokens=2_000), first)

    assert second.results == at(2, 6, 12)
    assert first | second == Clearing(results=at(2, 6, 12))


def test_what_is_shortened_is_not_shortened_again() -> None:
    given = conversation(*turn("old", 15_000, 20_000), *RECENT)
    done = Clearing(shortened=at(2))

    assert decided(given, EAGER, done, excess=90_000) == Clearing(shortened=at(4))


def test_shortening_alone_must_reach_the_minimum() -> None:
    given = conversation(*turn("old", 22_000), *RECENT)

    assert decided(given, excess=1) == Clearing()
    assert decided(given, replace(POLICY, minimum_tokens=19_000), excess=1) == Clearing(
        shortened=at(2)
    )


def test_clearing_and_shortening_reach_the_minimum_together() -> None:
    given = conversation(*turn("old", 15_000), *turn("mid", 30_000), *RECENT)

    assert decided(given, excess=0) == Clearing()
    assert decided(given, excess=99_000) == Clearing(at(2), at(6))


def test_below_the_trigger_nothing_is_shortened() -> None:
    """An idle conversation: its cache is gone, but nothing presses."""
    given = conversation(*turn("old", 45_000), *turn("mid", 39_000), *RECENT)

    assert decided(given, excess=-100_000) == Clearing(results=at(2))


def test_a_folded_result_that_would_grow_by_escaping_is_not_shortened() -> None:
    block = '<details type="tool_calls" name="f">\n<summary>f</summary>\n{}\n</details>'
    given = conversation(user(), says(block.format("& " * 1_600)), *RECENT)

    assert decided(given, EAGER, excess=99_000) == Clearing()


# Again and again


def test_a_second_decision_stops_at_the_first() -> None:
    """BUGS 22."""
    given = conversation(*turn("a", 40_000), *turn("b", 40_000), *turn("c", 39_900), *RECENT)
    done = decided(given)
    assert done.results == at(2, 6)

    assert decided(carried_out(given, done), done=done) == Clearing()
    assert decided(given, done=done) == Clearing()
    assert decided(given, EAGER, done=Clearing(results=at(6))) == Clearing()


def test_the_next_decision_waits_until_enough_is_won_again() -> None:
    """BUGS 22."""
    messages = turn("a", 60_000)
    done = Clearing()
    decisions = 0
    for number in range(30):
        messages += turn(f"t{number}", 5_000)
        given = conversation(*messages, user())
        more = decided(carried_out(given, done), done=done)
        decisions += bool(more)
        done |= more

    assert decisions <= 6
    assert len(done.results) > 10


def test_a_grown_conversation_begins_with_the_same_bytes() -> None:
    """BUGS 21."""
    messages = [*turn("a", 50_000), *turn("b", 50_000), *RECENT]
    given = conversation(*messages)
    clearing = decided(given)

    sent = json.dumps(carried_out(given, clearing).fields)
    grown = conversation(*messages, *step("new", 9_000), says(), user())

    assert json.dumps(carried_out(grown, clearing).fields).startswith(sent[:-1])


# For any history

_policies = st.builds(
    ClearOldToolOutputPolicy,
    enabled=st.just(True),
    protect_tokens=st.sampled_from([0, 50, 400]),
    minimum_tokens=st.sampled_from([0, 30, 300]),
    protect_turns=st.integers(0, 2),
    protected_tools=st.sampled_from([frozenset(), frozenset({"f"})]),
    keep_results=st.integers(0, 2),
    old_max_bytes=st.sampled_from([60, 150]),
)
_pressures = st.fixed_dictionaries(
    {"trigger": st.sampled_from([0, 100, 9_999]), "excess": st.sampled_from([-1, 50, 9_999])}
)


@given(busy_histories, _policies, _pressures)
def test_whatever_is_decided_is_right(
    messages: list[Fields], policy: ClearOldToolOutputPolicy, pressure: dict[str, int]
) -> None:
    """BUGS 1, 2 and 38: pairs hold, nothing grows, nothing unseen or of the user's is touched."""
    before = copy.deepcopy(messages)
    given = conversation(*messages)

    clearing = decided(given, policy, Clearing(), **pressure)
    after = carried_out(given, clearing, policy)

    assert messages == before
    assert after.groups == given.groups
    assert _total(after) <= _total(given) - min(policy.minimum_tokens, bool(clearing) * 10**6)
    assert clearing.until <= seen_until(given)
    for place in clearing.results | clearing.shortened:
        old, new = messages[place.origin], after.fields[place.origin]
        assert old["role"] in ("tool", "function", "assistant")
        assert new != old
        assert {**new, "content": 0} == {**old, "content": 0}


@given(busy_histories, _policies, _pressures)
def test_deciding_again_at_once_clears_nothing_more(
    messages: list[Fields], policy: ClearOldToolOutputPolicy, pressure: dict[str, int]
) -> None:
    """BUGS 22: what a decision won is not won a second time."""
    given = conversation(*messages)
    done = decided(given, policy, Clearing(), **pressure)
    after = carried_out(given, done, policy)

    more = decided(after, policy, done, **pressure)

    assert not more.results & done.results
    assert not more.shortened & (done.shortened | done.results)
    assert carried_out(after, done, policy) is after


def _total(given: Conversation) -> int:
    pieces: Any = (message.pieces() for message in given.messages)
    return sum(len(words) for found in pieces for _, words in found)
