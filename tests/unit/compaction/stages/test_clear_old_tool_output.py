from dataclasses import replace

import pytest

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.clearing import Clearing
from chat_proxy.compaction.stages.clear_old_tool_output import ClearOldToolOutputPolicy
from tests.unit.chat.shapes import (
    Fields,
    calls,
    conversation,
    image,
    result,
    says,
    system,
    text,
    user,
)
from tests.unit.compaction.stages.old_output import (
    EAGER,
    NOTE_TOKENS,
    POLICY,
    RECENT,
    carried_out,
    decided,
)
from tests.unit.compaction.stages.pressing import at, folded, pressure_on, step, turn

# The numbers


@pytest.mark.parametrize(("size", "goes"), [(39_899, False), (39_900, False), (39_901, True)])
def test_the_newest_40000_tokens_stay(size: int, goes: bool) -> None:
    """39,999 and 40,000 tokens stay, 40,001 do not; the recent turns' 100 are among them."""
    given = conversation(*turn("old", size), *RECENT)

    assert decided(given).results == (at(2) if goes else at())


@pytest.mark.parametrize(
    ("tokens", "largest", "most"),
    [(40_000, 9_000, 0), (40_001, 9_000, 9_001), (90_000, 9_000, 59_000), (45_000, 45_000, 45_000)],
)
def test_what_can_be_won_at_most_is_known_from_the_sizes(
    tokens: int, largest: int, most: int
) -> None:
    """Nothing of what is protected, but a result goes as a whole."""
    budget = pressure_on(conversation(user())).budget

    assert POLICY.most_cleared(tokens, largest, budget) == most


@pytest.mark.parametrize(("won", "goes"), [(19_999, False), (20_000, True), (20_001, True)])
def test_nothing_goes_unless_20000_tokens_are_won(won: int, goes: bool) -> None:
    """BUGS 21."""
    given = conversation(*turn("old", won + NOTE_TOKENS), *turn("mid", 39_900), *RECENT)

    assert bool(decided(given)) is goes


def test_the_minimum_counts_all_results_together() -> None:
    given = conversation(*turn("old", *[2_000 + NOTE_TOKENS] * 10), *turn("mid", 39_900), *RECENT)

    assert len(decided(given).results) == 10
    assert decided(given, replace(POLICY, minimum_tokens=20_001)) == Clearing()


def test_a_small_window_protects_a_quarter_and_asks_for_an_eighth() -> None:
    def in_8k(old: int, mid: int) -> Clearing:
        given = conversation(*turn("old", old + NOTE_TOKENS), *turn("mid", mid), *RECENT)
        return decided(given, window=8_192, trigger=4_915)

    assert in_8k(1_024, 1_948).results == at(2)
    assert in_8k(1_023, 1_948) == Clearing()
    assert in_8k(1_024, 2_048 - 100 - 1_024 - NOTE_TOKENS) == Clearing()


def test_all_numbers_may_be_zero() -> None:
    policy = ClearOldToolOutputPolicy(True, 0, 0, 0, frozenset(), 0, 0)
    given = conversation(*turn("old", 100), user())

    assert decided(given, policy).results == at(2)
    assert decided(conversation(), policy) == Clearing()
    assert decided(conversation(user()), policy) == Clearing()


def test_a_stage_that_is_off_decides_nothing() -> None:
    given = conversation(*turn("old", 99_000), *RECENT)

    assert decided(given, replace(POLICY, enabled=False)) == Clearing()


# What is protected


def test_results_of_the_last_two_turns_stay() -> None:
    given = conversation(
        *turn("a", 50_000), *turn("b", 50_000), *turn("c", 50_000), user("d"), *step("d", 9)
    )

    assert decided(given, replace(POLICY, protect_turns=1)).results == at(2, 6, 10)
    assert decided(given).results == at(2, 6)
    assert decided(given, replace(POLICY, protect_turns=3)).results == at(2)
    assert decided(given, replace(POLICY, protect_turns=9)) == Clearing()


def test_the_newest_results_stay_whatever_their_size() -> None:
    sizes = [30_000] * 4
    given = conversation(*turn("old", *sizes), user(), says(), user())

    assert len(decided(given, replace(POLICY, keep_results=0)).results) == 3
    assert decided(given, replace(POLICY, keep_results=3)).results == at(2)
    assert decided(given, replace(POLICY, keep_results=4)) == Clearing()


def test_results_of_protected_tools_stay() -> None:
    skill = calls("s")
    skill["tool_calls"][0]["function"]["name"] = "skill"
    given = conversation(
        user(),
        skill,
        result("s", "x" * 30_000),
        {"role": "function", "name": "skill", "content": "x" * 30_000},
        says(folded("skill", "x" * 30_000)),
        *turn("old", 30_000),
        *RECENT,
    )

    assert decided(given) == Clearing()
    assert decided(given, replace(POLICY, protected_tools=frozenset())).results == at(2, 3, (4, 0))


def test_tokens_of_protected_tools_count_as_tool_output() -> None:
    guarded = {"role": "tool", "name": "skill", "content": "x" * 40_000}
    given = conversation(*turn("old", 30_000), user(), guarded, says(), *RECENT)

    assert decided(given).results == at(2)


def test_results_that_the_model_has_not_seen_stay() -> None:
    """BUGS 38."""
    policy = replace(EAGER, protect_turns=0, keep_results=0)
    given = conversation(user(), *step("a", 50_000), *step("b", 50_000, 50_000), user("hurry"))

    assert decided(given, policy).results == at(2)


def test_a_question_behind_new_results_does_not_make_them_old() -> None:
    """BUGS 38."""
    policy = replace(EAGER, protect_turns=1, keep_results=0)
    given = conversation(user(), *step("a", 50_000), *step("b", 50_000, 50_000), user("hurry"))

    assert decided(given, policy).results == at(2)


def test_a_result_no_longer_than_the_note_stays() -> None:
    given = conversation(*turn("old", NOTE_TOKENS, NOTE_TOKENS + 1), *turn("b", 50_000), *RECENT)

    assert decided(given, EAGER).results == at(4, 8)


# One turn over the trigger: an agent's run


def _run(steps: int) -> list[Fields]:
    """Return one request with steps of two parallel calls, 300 and 700 tokens long."""
    made = [message for number in range(steps) for message in step(f"s{number}", 300, 700)]
    return [system(), user("Fix the bug in parser.py"), *made]


def test_an_agents_run_of_300_steps_loses_its_older_results() -> None:
    """BUGS 1, 2 and 24."""
    messages = _run(300)
    given = conversation(*messages)

    clearing = decided(given, window=131_072, trigger=80_000, excess=250_000)
    after = carried_out(given, clearing)

    results = [index for index, fields in enumerate(messages) if fields["role"] == "tool"]
    assert clearing.results == at(*results[:-65])  # 32 steps and one result more are 32,700 tokens
    assert after.fields[:2] == messages[:2]
    assert after.groups == given.groups
    assert [message.answers for message in after.messages] == [
        message.answers for message in given.messages
    ]
    assert clearing.shortened == at()


def test_a_run_below_the_trigger_keeps_all_its_results() -> None:
    given = conversation(*_run(60))

    assert decided(given, window=131_072, trigger=80_000, excess=30_000) == Clearing()


def test_the_last_step_stays_though_it_alone_is_over_the_trigger() -> None:
    given = conversation(user(), *step("a", 30_000), *step("b", 50_000, 50_000, 50_000))

    assert decided(given, trigger=80_000, excess=100_000).results == at(2)


def test_the_current_turn_stays_protected_until_it_alone_is_over_the_trigger() -> None:
    """The turn before it is given up first."""
    given = conversation(*turn("before", 60_000), user(), *step("a", 30_000), *step("b", 30_000))

    assert decided(given, trigger=80_000, excess=90_000).results == at(2)
    assert decided(given, trigger=60_000, excess=90_000).results == at(2, 6)


def test_turns_that_just_reach_the_trigger_are_over_it() -> None:
    given = conversation(user(), *step("a", 30_000), *step("b", 30_000))
    size = sum(pressure_on(given).sizes)

    assert decided(given, trigger=size + 1, excess=50_000) == Clearing()
    assert decided(given, trigger=size, excess=50_000).results == at(2)


def test_a_run_is_not_shortened_where_it_is_newest() -> None:
    given = conversation(user(), *step("a", 50_000), *step("b", 10_000), *step("c", 10_000))

    assert decided(given, trigger=60_000, excess=900_000) == Clearing(results=at(2))


# Forms of results


def test_lists_and_folded_results_count_and_go_like_any_other() -> None:
    """BUGS 39."""
    given = conversation(
        user(),
        calls("a"),
        result("a", [text("x" * 15_000), text("x" * 15_000), image()]),
        says(f"{folded('f', 'x' * 15_000)} and {folded('g', 'x' * 15_000)}"),
        says([text("Well"), text(folded("h", "x" * 15_000))]),
        *turn("mid", 20_000),
        *RECENT,
    )

    assert decided(given).results == at(2, (3, 0), (3, 1))


def test_a_result_that_the_client_did_not_send_is_left_alone() -> None:
    whole = conversation(*turn("old", 50_000), *RECENT)
    given = Conversation(whole.messages, [None] * len(whole))

    assert decided(given) == Clearing()
