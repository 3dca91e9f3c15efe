"""The sections that an operator's instruction lists."""

import pytest

from chat_proxy.compaction.summary.prompt import (
    DEFAULT_INSTRUCTION,
    PROGRESS,
    SECTIONS,
    SHORT_INSTRUCTION,
    TALK_INSTRUCTION,
)
from chat_proxy.compaction.summary.validation.sections import Section, Sections
from chat_proxy.compaction.summary.validation.template import sections_of


def titles(*names: str) -> Sections:
    return tuple(map(Section, names))


@pytest.mark.parametrize("instruction", [DEFAULT_INSTRUCTION, TALK_INSTRUCTION])
def test_the_built_in_instructions_list_the_built_in_sections(instruction: str) -> None:
    found = sections_of(instruction)

    assert tuple(section.title for section in found) == SECTIONS
    assert {section.title: section.parts for section in found if section.parts} == {
        "Progress": PROGRESS
    }


@pytest.mark.parametrize(
    "template",
    [
        "Summarise.\n\n# People\n# Dates & Places\n",
        "Summarise.\n\n## People\nwho is who\n## Dates & Places\n",
        "## People (who is who)\n## Dates & Places: when and where",
        "## 1. People\n## 2. **Dates & Places**",
        "### People - who is who\n### Dates & Places [list them]\n",
        "# How to summarise\nBe terse.\n## People\n## Dates & Places",
        "# Instructions\nBe terse.\n# Output format\n## People\n## Dates & Places",
        "# Rules\n- Be terse\n\n```\n## People\n## Dates & Places\n```\n# More",
        "Write:\n**People**\n**Dates & Places**\n",
        "Write:\n**People:**\nwho is who\n**Dates & Places** (when)\n",
        "Write:\n1. **People**: who is who.\n2. **Dates & Places**: when.\n",
        "Write:\n1. People\n2. Dates & Places\n",
        "Write:\n1. People: Say who is who. Leave nobody out.\n2) Dates & Places: When, where?\n",
        "## People\n## Dates & Places\n\nExample:\n## People\n- Ann\n## Dates & Places\n- Rome",
    ],
)
def test_headings_are_found_in_the_markup_that_the_template_uses(template: str) -> None:
    assert sections_of(template) == titles("People", "Dates & Places")


def test_lower_headings_are_parts_of_the_one_before() -> None:
    template = "## People\n### Friends\n### Family\n## Plans\n#### Soon\n"

    assert sections_of(template) == (
        Section("People", ("Friends", "Family")),
        Section("Plans", ("Soon",)),
    )


def test_a_lower_heading_before_the_first_section_is_no_part_of_any() -> None:
    assert sections_of("### Hint\n## People\n## Plans") == titles("People", "Plans")


def test_headings_of_other_scripts_are_found() -> None:
    assert sections_of("## 目标\n## 已完成(列出)\n## 下一步") == titles("目标", "已完成", "下一步")


@pytest.mark.parametrize(
    "template",
    [
        "",
        SHORT_INSTRUCTION,
        "Summarise like a pirate.",
        "# Summaries\nWrite one paragraph.",
        "1. Be terse.\n2. Copy names exactly.\n3. Add nothing.",
        "1. Keep every name\n2. Never invent anything that was not said in the talk",
        "**Important:** invent nothing.\n**Note:** be terse.",
        "- Goal: what the user wants\n- Facts: the rest",
        "Use #hashtags and **bold** words.",
        "## [Title]\n## <name of a section>",
        "# Role\nYou summarise.\n# Rules\nBe terse.",
    ],
)
def test_a_template_may_list_no_sections(template: str) -> None:
    assert sections_of(template) == ()
