"""Sections of summaries: read in any markup, written in one."""

from chat_proxy.compaction.summary.validation.sections import (
    Section,
    bodies_in,
    content_of,
    missing_in,
    outline,
    written,
)

SECTIONS = (Section("Plans"), Section("People", ("Friends", "Family")), Section("Notes"))


def test_the_outline_has_a_line_for_each_heading() -> None:
    assert outline(SECTIONS) == "## Plans\n## People\n### Friends\n### Family\n## Notes"


def test_lines_belong_to_the_heading_before_them() -> None:
    found = bodies_in("Hello!\n## Plans\n\n- a\n  b \n\n### Family\n- c\n", SECTIONS)

    assert found == {"Plans": ["- a", "  b"], "Family": ["- c"]}


def test_a_section_that_comes_twice_is_one() -> None:
    assert bodies_in("## Notes\n- a\n## Plans\n- b\n## Notes\n- c", SECTIONS) == {
        "Notes": ["- a", "- c"],
        "Plans": ["- b"],
    }


def test_other_headings_stay_where_they_are() -> None:
    assert bodies_in("## Plans\n- a\n## Weather\n- b", SECTIONS) == {
        "Plans": ["- a", "## Weather", "- b"]
    }


def test_a_part_stands_for_its_section() -> None:
    assert missing_in({"Friends": []}, SECTIONS) == ("Plans", "Notes")


def test_absent_sections_are_filled_in_their_order() -> None:
    assert written({"Notes": ["- a"]}, SECTIONS) == (
        "## Plans\n- (none)\n## People\n### Friends\n- (none)\n### Family\n- (none)\n## Notes\n- a"
    )


def test_a_section_without_its_parts_stays_without_them() -> None:
    assert "## People\n- Ann\n## Notes" in written({"People": ["- Ann"]}, SECTIONS)


def test_the_other_parts_of_a_section_are_filled() -> None:
    text = written({"People": ["Three."], "Family": ["- Ann"]}, SECTIONS)

    assert "## People\nThree.\n### Friends\n- (none)\n### Family\n- Ann\n" in text


def test_headings_and_none_are_no_content() -> None:
    assert content_of("## Plans\n- (none)\n### Friends\nNone.\n- 无\n- Keine\n- Ann\n\n") == "- Ann"
