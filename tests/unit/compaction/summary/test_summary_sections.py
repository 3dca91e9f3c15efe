"""Summaries cut to their share, and several merged into one."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.compaction.summary.prompt import OUTLINE, PROGRESS, SECTIONS
from chat_proxy.compaction.summary.summary_sections import (
    merged_summaries,
    merged_within,
    shortened_summary,
)

HEADINGS = [line.split(" (")[0] for line in OUTLINE.splitlines()]


def count(words: str) -> int:
    return len(words.split())


def summary(lines: int = 3) -> str:
    """Return a summary with so many lines of four words in each section."""
    return "\n".join(
        line
        for heading in HEADINGS
        for line in (
            heading,
            *(f"- {heading.strip('# ').split()[0]} fact {number}" for number in range(lines)),
        )
    )


def test_a_summary_within_its_share_stays() -> None:
    assert shortened_summary(summary(), 1_000, count) == summary()
    assert shortened_summary("", 0, count) == ""


def test_goal_and_constraints_stay_longest() -> None:
    cut = shortened_summary(summary(), 36, count).splitlines()

    assert cut[0] == "## Goal"
    assert "## Constraints & Preferences" in cut
    assert [line for line in cut if line.startswith("- Goal")] == [
        "- Goal fact 0",
        "- Goal fact 1",
        "- Goal fact 2",
    ]
    assert "## Relevant Files" not in cut
    assert "### Done" not in cut


def test_what_is_left_stands_in_its_order_under_its_heading() -> None:
    whole = summary(9).splitlines()

    cut = shortened_summary(summary(9), 120, count).splitlines()

    places = [whole.index(line) for line in cut]
    assert places == sorted(places)
    for line in cut:
        if line.startswith("- "):
            before = cut[: cut.index(line)]
            heading = [it for it in before if it.startswith("#")][-1]
            assert heading.strip("# ").split()[0] == line.split()[1]


def test_a_long_line_that_does_not_fit_hides_no_shorter_one_behind_it() -> None:
    given = f"## Goal\n- {'word ' * 90}\n- ship it"

    assert shortened_summary(given, 20, count) == "## Goal\n- ship it"


def test_sections_without_content_go_before_any_fact() -> None:
    given = "## Goal\n- (none)\n## Next Steps\n- (none)\n## Key Decisions\n- Use port 4711 only"

    assert shortened_summary(given, 10, count) == "## Key Decisions\n- Use port 4711 only"


def test_no_heading_is_left_without_a_line() -> None:
    for room in range(0, 150, 7):
        cut = shortened_summary(summary(), room, count).splitlines()
        alone = [
            line
            for line, behind in pairwise([*cut, "#"])
            if line.startswith("#") and behind.startswith("#")
        ]
        assert alone in ([], ["## Progress"])
        assert "## Progress" not in alone or any(line.startswith("### ") for line in cut)


def test_sections_of_another_prompt_are_cut_from_the_end() -> None:
    given = "# Ziel\n- a b c\n# Lage\n- d e f\n# Rest\n- g h i"

    assert shortened_summary(given, 13, count) == "# Ziel\n- a b c"


def test_plain_text_is_cut_by_lines_that_are_spread_from_the_first_to_the_last() -> None:
    given = [f"fact number {number}" for number in range(50)]

    cut = shortened_summary("\n".join(given), 40, count)

    places = [given.index(line) for line in cut.splitlines()]
    assert 20 < count(cut) <= 40
    assert (places[0], places[-1]) == (0, 49)
    assert max(two - one for one, two in pairwise(places)) <= 8


@given(
    st.lists(st.sampled_from([*HEADINGS, "- a b", "- c", "", "x " * 30]), max_size=30), st.data()
)
def test_a_cut_summary_has_at_most_its_share(lines: list[str], data: st.DataObject) -> None:
    room = data.draw(st.integers(0, 60))

    cut = shortened_summary("\n".join(lines), room, count)

    assert count(cut) <= room
    assert all(line in lines for line in cut.splitlines())


def test_several_summaries_become_one_section_by_section() -> None:
    first = "## Goal\n- ship it\n## Progress\n### Done\n- one\n## Next Steps\n- (none)"
    second = "## Goal\n- ship it\n## Progress\n### Done\n- two\n## Next Steps\n- test"

    assert merged_summaries([first, second]) == (
        "## Goal\n- ship it\n## Progress\n### Done\n- one\n- two\n## Next Steps\n- test"
    )


def test_a_section_without_content_in_any_of_them_says_so() -> None:
    empty = "## Goal\n- a\n## Key Decisions\n- (none)"

    assert merged_summaries([empty, empty]) == "## Goal\n- a\n## Key Decisions\n- (none)"


def test_plain_texts_are_joined_without_repetition() -> None:
    assert merged_summaries(["a\nb", "b\nc"]) == "a\nb\nc"
    assert merged_summaries([]) == ""


def test_where_merged_summaries_are_cut_each_has_its_share() -> None:
    texts = [
        "\n".join(["## Goal", *(f"- {name} goal {number}" for number in range(50))])
        for name in ("first", "second", "third")
    ]

    merged = merged_within([*texts, "## Goal\n- short one\n## Next Steps\n- (none)"], 120, count)

    assert count(merged) <= 120
    assert "- short one" in merged
    assert merged.startswith("## Goal\n- first goal 0\n")
    shares = [merged.count(f"- {name} goal") for name in ("first", "second", "third")]
    assert max(shares) - min(shares) <= 1
    assert min(shares) >= 5


def test_merged_summaries_that_fit_are_not_cut() -> None:
    texts = ["## Goal\n- a", "## Goal\n- b"]

    assert merged_within(texts, 100, count) == merged_summaries(texts)


def test_what_the_model_needs_most_is_cut_last() -> None:
    """A heading of the built-in prompt that is renamed must not fall to the end unnoticed."""
    given = "\n".join(f"{heading}\n- fact" for heading in HEADINGS)

    order: list[str] = []
    for room in range(100):
        lines = shortened_summary(given, room, lambda text: text.count("\n") * 9 + 1).splitlines()
        headings = [line.strip("# ") for line in lines if line.startswith("#")]
        order += [heading for heading in headings if heading not in order]
    assert order == [
        "Goal",
        "Constraints & Preferences",
        "Next Steps",
        "Progress",
        "In Progress",
        "Critical Context",
        "Key Decisions",
        "Blocked",
        "Done",
        "Relevant Files",
    ]
    assert set(order) == {*SECTIONS, *PROGRESS}
