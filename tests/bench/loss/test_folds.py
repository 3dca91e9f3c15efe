from bench.conversation.loss.facts import facts
from bench.conversation.loss.folds import FoldAges, boundary, is_about_image, unseen_share
from bench.conversation.loss.script import picture
from bench.conversation.prompt import Json

SYSTEM: Json = {"role": "system", "content": "Work."}
FOLD: Json = {"role": "user", "content": "Summary of what was: all went well."}
HISTORY: list[Json] = [
    SYSTEM,
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"role": "user", "content": "three"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "c1"}]},
    {"role": "tool", "content": "a long result", "tool_call_id": "c1"},
]
ONE, OTHER = facts(1)[:2]


def test_an_unchanged_prompt_folds_nothing() -> None:
    assert boundary(HISTORY, HISTORY) == 0


def test_a_shortened_result_is_still_shown() -> None:
    cleared = {**HISTORY[5], "content": "[cleared]"}

    assert boundary(HISTORY, [*HISTORY[:5], cleared]) == 0


def test_all_before_the_tail_is_folded() -> None:
    assert boundary(HISTORY, [SYSTEM, FOLD, *HISTORY[3:]]) == 3


def test_a_user_message_that_was_carried_over_is_not_the_tail() -> None:
    assert boundary(HISTORY, [SYSTEM, FOLD, HISTORY[3], *HISTORY[5:]]) == 5


def test_a_fold_that_quotes_a_message_does_not_show_it() -> None:
    quoting = {"role": "user", "content": "Earlier: three. " + "And so on. " * 30}

    assert boundary(HISTORY, [SYSTEM, quoting, *HISTORY[4:]]) == 4


def test_each_fact_has_its_own_age() -> None:
    ages = FoldAges([ONE, OTHER])
    ages.plant([ONE], 1)
    ages.plant([OTHER], 3)

    first = ages.folded_now(HISTORY, [SYSTEM, FOLD, *HISTORY[3:]])
    same = ages.folded_now(HISTORY, [SYSTEM, FOLD, *HISTORY[3:]])
    second = ages.folded_now(HISTORY, [SYSTEM, FOLD, *HISTORY[4:]])

    assert first == {ONE: 1}
    assert same == {}
    assert second == {ONE: 2, OTHER: 1}
    assert ages.youngest() == 1


def test_an_image_turn_that_hides_older_turns_is_no_fold() -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": picture(1)}]
    shown: Json = {"role": "user", "content": parts}
    ages = FoldAges([ONE])
    ages.plant([ONE], 1)

    assert is_about_image([*HISTORY, shown])
    assert ages.folded_now([*HISTORY, shown], [SYSTEM, shown]) == {}


def test_unseen_is_what_neither_the_prompt_nor_a_summariser_has() -> None:
    lines = [letter * 30 for letter in "abcd"]
    history: list[Json] = [
        {"role": "tool", "content": "\n".join([*lines, "too short"])},
        {"role": "user", "content": "e" * 30},
    ]

    assert unseen_share(history, f"{lines[0]}\nmore", {lines[1]}) == 2 / 3
    assert unseen_share(history, "\n".join(lines), set()) == 0
