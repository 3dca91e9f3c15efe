from bench.conversation.prompt import Json, Prompt, count
from bench.conversation.summarisers.extractive import SHARE_OF_LIMIT, Sentence, densest, extract
from bench.conversation.summarisers.request import (
    CUE,
    Heading,
    headings,
    is_asked_for,
    passages,
    section_for,
    written,
)

INSTRUCTION = f"""\
{CUE}. Write its summary.

## Goal (what is wanted)
## Preferences (rules)
## Progress
### Done
### Blocked
## Context"""
OUTLINE = [
    Heading(2, "Goal"),
    Heading(2, "Preferences"),
    Heading(2, "Progress"),
    Heading(3, "Done"),
    Heading(3, "Blocked"),
    Heading(2, "Context"),
]


def test_a_summary_is_known_by_its_header_and_else_by_its_words() -> None:
    asked, chat = _asked("hi"), Prompt({"messages": [{"role": "user", "content": "hi"}]})

    assert is_asked_for(asked)
    assert not is_asked_for(chat)
    assert is_asked_for(chat, "summary")
    assert not is_asked_for(asked, "tokenize")


def test_the_headings_are_those_that_the_instruction_lists() -> None:
    assert headings(_asked("hi")) == OUTLINE


def test_headings_in_shown_material_are_not_asked_for() -> None:
    shown = "## Installation\nDo this.\n## Usage\nDo that.\n\n"
    prompt = Prompt({"messages": [{"role": "user", "content": shown + INSTRUCTION}]})

    assert headings(prompt) == OUTLINE


def test_the_instruction_is_not_summarised_but_what_stands_before_it_is() -> None:
    framed = "<<<user ab>>>\nmy words\n<<<end ab>>>\n\n" + INSTRUCTION
    prompt = Prompt({"messages": [{"role": "user", "content": framed}]})

    assert [(it.role, it.text) for it in passages(prompt)] == [("user", "my words")]


def test_system_messages_are_not_summarised() -> None:
    assert [it.text for it in passages(_asked("hello"))] == ["hello"]


def test_every_heading_is_written_and_only_leaves_have_bullets() -> None:
    assert written(OUTLINE, {"Done": ["a", "b"]}).splitlines() == [
        "## Goal",
        "- (none)",
        "## Preferences",
        "- (none)",
        "## Progress",
        "### Done",
        "- a",
        "- b",
        "### Blocked",
        "- (none)",
        "## Context",
        "- (none)",
    ]


def test_a_role_has_its_section_and_an_unknown_outline_its_last_one() -> None:
    assert section_for("user", OUTLINE) == "Preferences"
    assert section_for("tool", OUTLINE) == "Context"
    assert section_for("user", [Heading(2, "One"), Heading(2, "Two")]) == "Two"


def test_rare_words_and_numbers_are_taken_before_small_talk() -> None:
    given = [
        Sentence(0, "Context", "Some weather talk again."),
        Sentence(1, "Context", "More weather talk again."),
        Sentence(2, "Context", "Yesterday Ludmila paid 4711 kroner."),
    ]

    assert densest(given, 12) == [given[2]]


def test_chosen_sentences_keep_their_order() -> None:
    given = [Sentence(0, "", "Plain words here."), Sentence(1, "", "In 1987 Ludmila was born.")]

    assert densest(given, 100) == given


def test_a_summary_keeps_to_its_share_of_the_limit_and_fills_it() -> None:
    said = " ".join(f"Item number{at} costs {at * 37} crowns in shop{at}." for at in range(200))

    summary = extract(_asked(said, max_tokens=300))

    assert 0.6 * 300 < count(summary) <= SHARE_OF_LIMIT * 300


def test_what_an_earlier_summary_says_stays_in_its_section() -> None:
    earlier = "<record>\n## Goal\n- Ship release 2041 to Oslo.\n</record>\nTalk of 99 balloons."

    summary = extract(_asked(earlier, max_tokens=500)).splitlines()

    assert summary[summary.index("## Goal") + 1] == "- Ship release 2041 to Oslo."
    assert summary[summary.index("## Preferences") + 1] == "- Talk of 99 balloons."


def _asked(text: str, **fields: int) -> Prompt:
    messages: list[Json] = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": text},
        {"role": "user", "content": INSTRUCTION},
    ]
    return Prompt({"messages": messages, **fields})
