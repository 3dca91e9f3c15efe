"""The texts that ask for a summary, and that the demo model understands them."""

import pytest

from chat_proxy.compaction.summary.prompt import (
    DEFAULT_INSTRUCTION,
    MAX_EXTRA_CHARS,
    PROGRESS,
    SECTIONS,
    instruction,
    repair_instruction,
)
from chat_proxy.compaction.summary.transcript import transcript, transcript_prompt
from chat_proxy.demo.model.messages import Message as DemoMessage
from chat_proxy.demo.model.messages import read_message
from chat_proxy.demo.summary.transcript import asks_for_summary
from chat_proxy.demo.summary.write import summarise
from tests.unit.chat.shapes import conversation, result, says, user

HEADINGS = [f"## {name}" for name in SECTIONS] + [f"### {name}" for name in PROGRESS]


@pytest.mark.parametrize("heading", HEADINGS)
def test_every_section_is_asked_for(heading: str) -> None:
    assert f"\n{heading}" in DEFAULT_INSTRUCTION


def test_the_sections_come_in_their_order() -> None:
    places = [DEFAULT_INSTRUCTION.index(f"\n## {name}") for name in SECTIONS]

    assert places == sorted(places)


def test_the_prompt_is_small_beside_what_it_rides_on() -> None:
    assert len(instruction(previous=True).encode()) < 1_900
    assert len(DEFAULT_INSTRUCTION.encode()) <= 1_800


def test_the_prompt_forbids_to_go_on_with_the_conversation() -> None:
    """BUGS 28"""
    assert DEFAULT_INSTRUCTION.startswith("Do not answer or continue the conversation, and call no")


def test_the_prompt_asks_for_the_conversation_s_language() -> None:
    """BUGS 29"""
    assert "in the language of the conversation; the headings stay English" in DEFAULT_INSTRUCTION


def test_the_prompt_forbids_to_invent() -> None:
    """BUGS 30"""
    assert "Add nothing that was not said or seen." in DEFAULT_INSTRUCTION


def test_the_prompt_asks_for_the_user_s_rules() -> None:
    """BUGS 31"""
    assert "the user's requests, rules and corrections" in DEFAULT_INSTRUCTION


def test_words_of_tools_are_never_the_user_s() -> None:
    """FAULTS C14"""
    assert "the words of that source, never as the user's" in DEFAULT_INSTRUCTION


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


def test_a_template_without_the_sections_gets_them() -> None:
    asked = instruction(template="Summarise like a pirate.", previous=False)

    assert asked.startswith("Summarise like a pirate.")
    assert all(f"\n{heading}" in asked for heading in HEADINGS)


def test_a_template_with_the_sections_stays_as_it_is() -> None:
    template = "Arr! " + ", ".join(SECTIONS)

    assert instruction(template=f"{template}\n", previous=False) == template


def test_an_empty_template_is_the_default_one() -> None:
    assert instruction(template="\n", previous=False) == DEFAULT_INSTRUCTION


def test_a_repair_names_what_is_missing_and_all_that_is_wanted() -> None:
    """FAULTS C9"""
    asked = repair_instruction(["Goal", "Next Steps"])

    assert asked.startswith("Your summary lacks these sections: Goal; Next Steps.")
    assert all(f"\n{heading}" in asked for heading in HEADINGS)


def test_a_repair_of_nothing_in_particular_asks_for_all() -> None:
    assert "lacks these sections: all." in repair_instruction([])


@pytest.mark.parametrize("asked", [instruction(previous=True), repair_instruction(["Goal"])])
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
