"""Which rule a tool has, and which results are the newest."""

import time

import pytest

from chat_proxy.compaction.stages.tool_rules import NamedRule, newest_results, rule_for
from tests.unit.chat.shapes import calls, conversation, result, says, text, user
from tests.unit.compaction.stages.truncating import folded


@pytest.mark.parametrize(
    ("pattern", "tool", "matches"),
    [
        ("read", "read", True),
        ("read", "read_file", False),
        ("read", "Read", False),
        ("*", "", True),
        ("*", "anything", True),
        ("mcp__*", "mcp__github__search", True),
        ("mcp__*", "mcp_", False),
        ("*_file", "read_file", True),
        ("*_file", "read_files", False),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "abc", True),
        ("a*b*c", "acb", False),
        ("a*a", "a", False),
        ("ab*ba", "aba", False),
        ("**", "x", True),
        ("read?", "read1", False),
        ("[ab]", "a", False),
        ("a.c", "abc", False),
    ],
)
def test_only_the_asterisk_stands_for_other_letters(pattern: str, tool: str, matches: bool) -> None:
    assert rule_for([(pattern, 7)], tool) == (7 if matches else None)


def test_a_name_comes_before_any_pattern_and_patterns_in_their_order() -> None:
    rules: list[NamedRule] = [("*", 1), ("read_*", 2), ("read_file", "whole")]

    assert rule_for(rules, "read_file") == "whole"
    assert rule_for(rules, "read_page") == 1
    assert rule_for(rules[1:], "read_page") == 2
    assert rule_for([], "read_file") is None


def test_a_name_that_is_made_to_hurt_takes_no_time() -> None:
    started = time.process_time()

    assert rule_for([("*a*a*a*a*a*b", 1)], "a" * 500_000) is None

    assert time.process_time() - started < 1


def test_the_newest_results_are_counted_one_by_one_from_the_end() -> None:
    given = conversation(
        user(),
        calls("1", "2"),
        result("1"),
        result("2"),
        says(f"a {folded('x')} b {folded('y')}"),
        says([text(folded("z")), text("no result")]),
        user(),
        calls("3"),
        result("3"),
    )

    places = [tuple(place) for place in sorted(newest_results(given, 4))]

    assert places == [
        (4, ("content",), 0),
        (4, ("content",), 1),
        (5, ("content", 0, "text"), 0),
        (8, (), 0),
    ]
    assert newest_results(given, 0) == frozenset()
    assert len(newest_results(given, 99)) == 6
