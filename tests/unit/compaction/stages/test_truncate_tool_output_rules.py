"""Limits by age and by tool."""

from typing import Any

import pytest

from chat_proxy.chat.details_blocks import embedded_results
from chat_proxy.chat.message_features import MessageFeatures
from chat_proxy.compaction.stages.stage import StageContext
from chat_proxy.compaction.stages.tool_rules import NamedRule, ToolRule
from chat_proxy.compaction.stages.truncate_tool_output import (
    TruncateToolOutput,
    TruncateToolOutputPolicy,
)
from chat_proxy.compaction.truncate_text import byte_count
from tests.unit.chat.shapes import Fields, calls, result, says, text, user
from tests.unit.compaction.stages.truncating import KEEPING, folded, name_of, size_of, truncate

LONG = "x" * 500
LINES = "".join(f"line {number}\n" for number in range(1, 400))


def named(name: str, tool: str, content: Any = LONG) -> Fields:
    return {**result(name, content), "name": tool}


def sizes(outcome: Any) -> list[int]:
    return [size_of(fields) for fields in outcome.conversation.fields if fields["role"] == "tool"]


def test_without_tiers_every_result_may_have_the_same_size() -> None:
    outcome = truncate(*(result(name, LONG) for name in "abc"), old_max_bytes=50)

    assert sizes(outcome) == [200, 200, 200]


def test_results_beyond_the_newest_are_cut_to_the_smaller_size() -> None:
    outcome = truncate(*(result(name, LONG) for name in "abcd"), recent=2, old_max_bytes=100)

    old, older, *newest = sizes(outcome)
    assert newest == [200, 200]
    assert old == older
    assert 50 < old <= 100


def test_an_old_result_within_the_smaller_size_stays() -> None:
    short = result("a", "x" * 100)

    outcome = truncate(short, result("b", LONG), recent=1, old_max_bytes=100)

    assert outcome.conversation.fields[0] is short


def test_embedded_results_count_among_the_newest_and_grow_old() -> None:
    both = says(f"{folded(LONG)} and {folded(LONG)}")

    outcome = truncate(result("a", LONG), both, result("b", LONG), recent=2, old_max_bytes=100)

    old, recent = embedded_results(outcome.conversation.fields[1]["content"])
    assert byte_count(old.text) <= 100 < byte_count(recent.text) <= 200
    assert [size > 100 for size in sizes(outcome)] == [False, True]


def test_an_old_result_has_the_same_offload_id_as_before() -> None:
    first = truncate(result("a", LONG), recent=1, context=KEEPING)
    later = truncate(result("a", LONG), result("b", "short"), recent=1, context=KEEPING)

    assert first.offloads == later.offloads == {name_of(LONG): LONG}
    assert size_of(later.conversation.fields[0]) < size_of(first.conversation.fields[0])


def test_a_result_that_must_stay_whole_is_never_cut() -> None:
    given = [named("a", "skill"), says(folded(LONG, "skill")), named("b", "other")]

    outcome = truncate(*given, rules={"skill": "whole"}, recent=1)

    assert outcome.conversation.fields[0] is given[0]
    assert outcome.conversation.fields[1] is given[1]
    assert sizes(outcome)[1] == 200


@pytest.mark.parametrize("recent", [0, 1])
def test_a_recent_result_stays_whole_until_others_follow(recent: int) -> None:
    plan = named("a", "plan")
    rules: dict[str, ToolRule] = {"plan": "recent"}

    newest = truncate(plan, rules=rules, recent=recent)
    older = truncate(plan, named("b", "other", "short"), rules=rules, recent=recent)

    assert newest.conversation.fields[0] is plan
    assert sizes(older)[0] <= 100


def test_a_recent_result_stays_whole_among_as_many_as_are_recent() -> None:
    given = [named(name, "plan") for name in "abc"]

    outcome = truncate(*given, rules={"plan": "recent"}, recent=2)

    assert [size == len(LONG) for size in sizes(outcome)] == [False, True, True]


def test_a_number_is_the_limit_at_once_whether_it_is_smaller_or_larger() -> None:
    rules = {"read": 150, "search": 400}

    outcome = truncate(named("a", "search"), named("b", "read"), rules=rules, recent=1)

    assert sizes(outcome) == [400, 150]


def test_an_exempt_tool_has_no_rule() -> None:
    given = named("a", "skill")

    assert truncate(given, exempt=("skill",), rules={"*": 150}).conversation.fields[0] is given


def test_the_note_of_a_number_says_from_which_line_to_read_on() -> None:
    outcome = truncate(named("a", "read", LINES), rules={"read": 300}, context=KEEPING)

    content = outcome.conversation.fields[0]["content"]
    head, _, note = content.partition("[Tool output truncated: omitted ")
    line = head.count("\n") + 1
    assert note.partition(" chars]")[2].startswith(
        f" [offload id: {name_of(LINES)}] [read on from line {line}]\n"
    )
    assert head.endswith(f"line {line - 1}\n")
    assert size_of(outcome.conversation.fields[0]) <= 300


def test_the_line_is_named_although_no_text_is_stored() -> None:
    outcome = truncate(named("a", "read", LINES), rules={"read": 300})

    assert " chars] [read on from line " in outcome.conversation.fields[0]["content"]


def test_no_other_note_names_a_line() -> None:
    outcome = truncate(named("a", "read", LINES), named("b", "x", LINES), recent=1, context=KEEPING)

    assert "read on" not in str(outcome.conversation.fields)


def test_a_file_is_named_with_its_line_only_once() -> None:
    context = StageContext(offload_id=name_of, file_of=lambda name: f"data/{name}.txt")

    outcome = truncate(named("a", "read", LINES), rules={"read": 300}, context=context)

    content = outcome.conversation.fields[0]["content"]
    assert f"[full text: data/{name_of(LINES)}.txt, go on from line " in content
    assert "read on" not in content


def test_the_texts_of_a_message_share_the_number() -> None:
    parts = [text("s" * 250), text(LONG), text(LONG)]

    outcome = truncate(named("a", "read", parts), rules={"read": 900})

    assert outcome.conversation.fields[0]["content"][0] is parts[0]
    assert 850 < sizes(outcome)[0] <= 900


RECENT: tuple[NamedRule, ...] = (("plan", "recent"),)
NUMBER: tuple[NamedRule, ...] = (("read", 150), ("skill", "whole"))


@pytest.mark.parametrize(
    ("recent", "rules", "smallest"),
    [
        (0, (), 1_000),
        (1, (), 300),
        (0, RECENT, 300),
        (0, NUMBER, 150),
        (1, NUMBER, 150),
        (0, (("read", 5_000),), 1_000),
        (0, (("skill", "whole"),), 1_000),
    ],
)
def test_a_glance_considers_the_smallest_size_that_a_result_may_have(
    recent: int, rules: tuple[NamedRule, ...], smallest: int
) -> None:
    policy = TruncateToolOutputPolicy(True, 1_000, frozenset(), recent, 300, rules)
    stage = TruncateToolOutput(policy)

    assert stage.has_nothing_to_do(MessageFeatures(longest_result=smallest))
    assert not stage.has_nothing_to_do(MessageFeatures(longest_result=smallest + 1))
    assert not stage.has_nothing_to_do(MessageFeatures(is_plain=False))


def test_the_tool_is_known_by_the_call_that_the_result_answers() -> None:
    outcome = truncate(user(), calls("1"), result("1", LONG), rules={"get_*": 150})

    assert sizes(outcome) == [150]
