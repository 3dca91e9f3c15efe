from collections.abc import Sequence

from bench.conversation.loss.facts import Fact, facts
from bench.conversation.loss.models import GOOD, WEAK, FactSummariser
from bench.conversation.prompt import Json, Prompt, count
from bench.conversation.summarisers.request import CUE, REPAIR_CUE

FACTS = facts(1)
OUTLINE = """
## Goal
## Constraints & Preferences
## Progress
### Done
### In Progress
### Blocked
## Key Decisions
## Critical Context
## Relevant Files"""


def test_a_good_model_keeps_nearly_all_that_it_is_shown() -> None:
    summary = FactSummariser(FACTS, GOOD)(_asked(FACTS))

    assert 180 <= _known(summary) < 200


def test_what_was_not_shown_is_not_known() -> None:
    summary = FactSummariser(FACTS, GOOD)(_asked(FACTS[:40]))

    assert summary is not None
    assert not any(fact.key in summary for fact in FACTS[40:])


def test_an_earlier_summary_loses_a_little_each_time() -> None:
    summarise = FactSummariser(FACTS, GOOD)
    earlier = summarise(_asked(FACTS))
    first = _known(earlier)

    for _ in range(5):
        earlier = summarise(_prompt(f"Summary:\n{earlier}"))

    assert 0.75 * first < _known(earlier) < first


def test_whether_a_fact_is_kept_is_the_same_at_each_run() -> None:
    one, other = FactSummariser(FACTS, GOOD), FactSummariser(FACTS, GOOD)

    assert one(_asked(FACTS)) == other(_asked(FACTS))


def test_without_enough_room_the_words_of_the_user_go_first() -> None:
    summary = FactSummariser(FACTS, GOOD)(_asked(FACTS, max_tokens=700))

    assert summary is not None
    assert count(summary) <= 700
    assert all(fact.kind in ("user constraint", "user fact") for fact in FACTS[:50])
    assert sum(fact.key in summary for fact in FACTS[:50]) > 40


def test_a_weak_model_keeps_few_and_writes_little() -> None:
    summary = FactSummariser(FACTS, WEAK)(_asked(FACTS))

    assert summary is not None
    assert 5 < _known(summary) < 40
    assert count(summary) <= 300


def test_a_weak_model_leaves_out_sections_until_it_is_told() -> None:
    summarise = FactSummariser(FACTS, WEAK)

    first, second = summarise(_asked(FACTS)), summarise(_asked(FACTS))
    repaired = summarise(_prompt("hi", instruction=f"{REPAIR_CUE} these: Goal.\n{OUTLINE}"))

    assert "## Relevant Files" not in (first or "")
    assert "## Critical Context" not in (second or "")
    assert "## Relevant Files" in (repaired or "")


def test_without_a_model_nothing_is_written_or_seen() -> None:
    summarise = FactSummariser(FACTS, None)

    assert summarise(_asked(FACTS)) is None
    assert summarise.shown == set()


def test_the_lines_that_were_shown_are_noted() -> None:
    summarise = FactSummariser(FACTS, GOOD)

    summarise(_prompt("one line\n  another line"))

    assert {"one line", "another line"} <= summarise.shown


def _known(summary: str | None) -> int:
    assert summary is not None
    return sum(fact.key in summary for fact in FACTS)


def _asked(shown: Sequence[Fact], max_tokens: int = 8_000) -> Prompt:
    return _prompt("\n".join(fact.said for fact in shown), max_tokens)


def _prompt(text: str, max_tokens: int = 8_000, instruction: str = f"{CUE}.\n{OUTLINE}") -> Prompt:
    messages: list[Json] = [
        {"role": "user", "content": text},
        {"role": "user", "content": instruction},
    ]
    return Prompt({"messages": messages, "max_tokens": max_tokens})
