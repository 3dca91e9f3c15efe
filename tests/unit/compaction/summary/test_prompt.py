"""The texts that ask for a summary, and that the demo model understands them."""

import pytest

from chat_proxy.compaction.summary.prompt import (
    DEFAULT_INSTRUCTION,
    MAX_EXTRA_CHARS,
    PROGRESS,
    SECTIONS,
    TALK_INSTRUCTION,
    instruction,
    repair_instruction,
    short_instruction,
)
from chat_proxy.compaction.summary.transcript import transcript, transcript_prompt
from chat_proxy.compaction.summary.validation.template import sections_of
from chat_proxy.demo.model.messages import Message as DemoMessage
from chat_proxy.demo.model.messages import read_message
from chat_proxy.demo.summary.transcript import asks_for_summary
from chat_proxy.demo.summary.write import summarise
from tests.unit.chat.shapes import conversation, result, says, user

HEADINGS = [f"## {name}" for name in SECTIONS] + [f"### {name}" for name in PROGRESS]
BUILT_IN = sections_of(DEFAULT_INSTRUCTION)
CUE = "Do not answer or continue the conversation, and call no tool."

both = pytest.mark.parametrize("text", [DEFAULT_INSTRUCTION, TALK_INSTRUCTION])


@both
@pytest.mark.parametrize("heading", HEADINGS)
def test_every_section_is_asked_for(heading: str, text: str) -> None:
    assert f"\n{heading}" in text


@both
def test_the_sections_come_in_their_order(text: str) -> None:
    places = [text.index(f"\n## {name}") for name in SECTIONS]

    assert places == sorted(places)


def test_the_prompt_is_small_beside_what_it_rides_on() -> None:
    for is_talk in (False, True):
        assert len(instruction(previous=True, is_talk=is_talk).encode()) < 1_900
    assert len(short_instruction(previous=True).encode()) < 400


@pytest.mark.parametrize(
    "text",
    [
        DEFAULT_INSTRUCTION,
        TALK_INSTRUCTION,
        short_instruction(previous=False),
        short_instruction(previous=True, extra="keep the API"),
    ],
)
def test_every_built_in_prompt_forbids_to_go_on_with_the_conversation(text: str) -> None:
    """BUGS 28"""
    assert text.startswith(f"{CUE} ")


@both
def test_the_prompt_asks_for_the_conversation_s_language(text: str) -> None:
    """BUGS 29"""
    assert "in the language of the conversation; the headings stay English" in text


@both
def test_the_prompt_forbids_to_invent(text: str) -> None:
    """BUGS 30"""
    assert "Add nothing that was not said" in text


@both
def test_the_prompt_asks_for_the_user_s_rules(text: str) -> None:
    """BUGS 31"""
    assert "rules and corrections, in their own words" in text


@both
def test_words_of_others_are_never_the_user_s(text: str) -> None:
    """FAULTS C14"""
    assert "as the words of that source, never as the user's" in text


def test_talk_is_asked_for_people_and_dates_and_not_for_paths() -> None:
    asked = instruction(previous=False, is_talk=True)

    assert asked == TALK_INSTRUCTION
    for wanted in ("who is who", "names, dates, places, numbers", "plans", "opinions", "promises"):
        assert wanted in asked
    assert "Copy paths, commands, identifiers" not in asked


def test_the_short_prompt_lists_facts_and_no_sections() -> None:
    asked = short_instruction(previous=False)

    assert "names, numbers, dates, places, wishes, rules and decisions" in asked
    assert sections_of(asked) == ()
    assert asked.count(". ") == 1


def test_the_short_prompt_carries_an_earlier_summary_and_a_wish() -> None:
    asked = short_instruction(previous=True, extra="keep the API")

    assert "facts of the earlier summary" in asked
    assert asked.endswith("The user wishes for this summary:\nkeep the API")


def test_without_an_earlier_summary_the_prompt_is_the_template() -> None:
    assert instruction(previous=False) == DEFAULT_INSTRUCTION


def test_an_earlier_summary_is_to_be_updated() -> None:
    asked = instruction(previous=True)

    assert asked.startswith(DEFAULT_INSTRUCTION)
    assert "Update it: keep what is still true, remove what is stale, merge what is new." in asked


def test_a_wish_of_the_user_comes_last() -> None:
    assert instruction(previous=True, extra=" keep the API ").endswith(
        "The user wishes for this summary:\nkeep the API"
    )


def test_a_wish_is_bounded_and_carries_no_payload() -> None:
    asked = instruction(previous=False, extra="data:image/png;base64,AAAA " + "x! " * 5_000)

    assert "base64" not in asked
    assert len(asked) < len(DEFAULT_INSTRUCTION) + MAX_EXTRA_CHARS + 50


@pytest.mark.parametrize("is_talk", [False, True])
@pytest.mark.parametrize("template", ["Summarise like a pirate.", "Arr!\n## Booty\n## Crew"])
def test_an_operator_s_template_stays_as_it_is(template: str, is_talk: bool) -> None:
    asked = instruction(template=f"{template}\n", previous=False, is_talk=is_talk)

    assert asked == template


def test_an_empty_template_is_the_default_one() -> None:
    assert instruction(template="\n", previous=False) == DEFAULT_INSTRUCTION


def test_a_repair_names_what_is_missing_and_all_that_is_wanted() -> None:
    """FAULTS C9"""
    asked = repair_instruction(["Goal", "Next Steps"], BUILT_IN)

    assert asked.startswith("Your summary lacks these sections: Goal; Next Steps.")
    assert all(f"\n{heading}" in asked for heading in HEADINGS)


def test_a_repair_asks_for_the_sections_of_the_prompt_in_use() -> None:
    asked = repair_instruction(["Crew"], sections_of("Arr!\n## Booty\n## Crew"))

    assert asked.startswith("Your summary lacks these sections: Crew.")
    assert asked.endswith("\n\n## Booty\n## Crew")


@pytest.mark.parametrize(
    "asked",
    [
        instruction(previous=True),
        instruction(previous=False, is_talk=True),
        repair_instruction(["Goal"], BUILT_IN),
    ],
)
def test_the_demo_model_summarises_a_conversation_that_ends_with_it(asked: str) -> None:
    heard = (DemoMessage("user", "Fix app/main.py"), DemoMessage("user", asked))

    assert asks_for_summary(heard)
    assert summarise(heard).startswith("## Goal\n- Fix app/main.py\n")


def test_the_demo_model_summarises_a_transcript_and_an_earlier_summary() -> None:
    messages = conversation(user("Fix it"), says("I will."), result("1", "OSError: gone")).messages
    asked = transcript_prompt(
        instruction(previous=True), transcript(messages, "8f3a"), "## Goal\n- Ship it", "8f3a"
    )
    heard = tuple(read_message(dict(fields)) for fields in asked)

    summary = summarise(heard)

    assert asks_for_summary(heard)
    assert summary.startswith("## Goal\n- Ship it\n")
    assert "### In Progress\n- (none)\n" in summary
    assert "## Next Steps\n- I will.\n" in summary
    assert "## Critical Context\n- OSError: gone\n" in summary
