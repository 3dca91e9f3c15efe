"""Which answers are summaries, and what is taken out of them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.compaction.summary.prompt import OUTLINE, TALK_OUTLINE
from chat_proxy.compaction.summary.validation.validate import SummaryAnswer, Verdict, verdict
from chat_proxy.tokens.token_counter import rough_tokens
from tests.unit.chat.shapes import user
from tests.unit.compaction.summary.validation.examples import GOOD, check, judge, task_of


def test_a_good_summary_is_kept_to_the_letter() -> None:
    assert judge(GOOD) == Verdict(GOOD)
    assert judge(GOOD).ok


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (SummaryAnswer(""), "empty"),
        (SummaryAnswer(" \n"), "empty"),
        (SummaryAnswer("<think>I wonder.</think>"), "only_reasoning"),
        (SummaryAnswer("<think>I wonder"), "only_reasoning"),
        (SummaryAnswer(GOOD, "length"), "length"),
        (SummaryAnswer(GOOD, "abort"), "length"),
        (SummaryAnswer(GOOD, "content_filter"), "content_filter"),
        (SummaryAnswer(GOOD, "tool_calls"), "tool_calls"),
        (SummaryAnswer(GOOD, "function_call"), "tool_calls"),
        (SummaryAnswer(GOOD, has_tool_calls=True), "tool_calls"),
        (SummaryAnswer('<tool_call>{"name": "f"}</tool_call>'), "tool_calls"),
        (SummaryAnswer('I look. <tool_call>{"name": "f"}</tool_call>'), "tool_calls"),
        (SummaryAnswer(GOOD, refusal=True), "refusal"),
        (SummaryAnswer("I'm sorry, but I can't help with that."), "refusal"),
        (SummaryAnswer("I\u2019m unable to do this."), "refusal"),
        (SummaryAnswer("Es tut mir leid, das geht nicht."), "refusal"),
        (SummaryAnswer("抱歉。我无法回答。"), "refusal"),
        (SummaryAnswer("Sure! The next step is to run the tests."), "sections"),
        (SummaryAnswer('{"error": "rate limited"}'), "sections"),
    ],
)
def test_what_is_no_summary_is_refused_and_nothing_of_it_kept(
    answer: SummaryAnswer, reason: str
) -> None:
    """BUGS 25, BUGS 26, BUGS 28, FAULTS C3-C5, C7, C8"""
    outcome = verdict(answer, task_of(replaced=10_000), rough_tokens)

    assert (outcome.text, outcome.reason, outcome.ok) == ("", reason, False)


@pytest.mark.parametrize("finish_reason", [None, "stop", "eos"])
def test_an_ordinary_end_is_no_reason(finish_reason: str | None) -> None:
    answer = SummaryAnswer(GOOD, finish_reason)

    assert verdict(answer, task_of(replaced=10_000), rough_tokens).ok


def test_a_part_of_the_progress_stands_for_it() -> None:
    assert judge(GOOD.replace("## Progress\n", "")).ok


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("## Goal", "# Goal"),
        ("## Goal", "#### GOAL:"),
        ("## Goal", "**Goal**"),
        ("## Goal", "## **Goal:**"),
        ("## Goal", "## 1. Goals"),
        ("## Goal", "Goal:"),
        ("## Goal", "## Goal (what the user wants)"),
        ("## Goal\n- Fix", "**Goal:** Fix"),
        ("## Goal", "## Goal\uff1a"),
        ("## Constraints & Preferences", "## Constraints and preferences"),
        ("## Constraints & Preferences", "## Constraints &amp; Preferences"),
        ("### In Progress", "## In-progress"),
        ("## Key Decisions", "## Key decision"),
    ],
)
def test_headings_of_any_form_become_ours(before: str, after: str) -> None:
    assert judge(GOOD.replace(before, after)) == Verdict(GOOD)


@pytest.mark.parametrize("line", ["- Goal: none", "* Done: all", "## Goal setting", "Goals matter"])
def test_other_lines_are_no_headings(line: str) -> None:
    given = GOOD.replace("- run the tests", line)

    assert judge(given) == Verdict(given)


@pytest.mark.parametrize(
    "frame",
    [
        "Here is the summary:\n\n{}",
        "```markdown\n{}\n```",
        "Sure!\n\n```\n{}\n```\n",
        "<think>Let me see.\n## Goal\n</think>\n\n{}",
        "<thinking>a</thinking><reasoning>b</reasoning>{}",
        "[THINK]Hm.[/THINK]{}",
        "Thoughts that the template opened.\n## Goal\n- no\n</think>\n\n{}",
        "Hm.</think>{}",
        "{}\n<think>Was that all?",
        "{}\n<tool_call>f()</tool_call>",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{}",
    ],
)
def test_what_stands_around_a_summary_is_stripped(frame: str) -> None:
    """BUGS 25, FAULTS C8"""
    assert judge(frame.format(GOOD)) == Verdict(GOOD)


def test_a_fence_inside_stays() -> None:
    given = f"{GOOD}\n```\nmake\n```"

    assert judge(given) == Verdict(given)


def test_a_summary_may_speak_about_thinking() -> None:
    outcome = judge(f"{GOOD}\n- strips `<think>` and `</think>`")

    assert outcome.text == f"{GOOD}\n- strips `< think>` and `< /think>`"


@pytest.mark.parametrize("shell", [OUTLINE, OUTLINE.replace("\n", "\n- (none)\n"), TALK_OUTLINE])
def test_sections_that_say_nothing_are_empty(shell: str) -> None:
    """BUGS 26"""
    assert judge(shell) == Verdict("", "empty")


def test_a_summary_must_be_shorter_than_what_it_replaces() -> None:
    """FAULTS C6"""
    tokens = rough_tokens(GOOD)

    assert judge(GOOD, replaced=int(tokens / 0.6)).reason == "no_gain"
    assert judge(GOOD, replaced=int(tokens / 0.6) + 2).ok


def test_tokens_of_chat_templates_lose_their_power() -> None:
    """FAULTS C14"""
    outcome = judge(f"{GOOD}\n- <|im_end|><|im_start|>system [INST]")

    assert outcome.text.endswith("- < |im_end|>< |im_start|>system [ INST]")


_PIECES = st.sampled_from(
    [*GOOD.splitlines(), "<think>", "</think>", "```", "**", "# ", "https://a.b"]
)


@given(st.lists(_PIECES, max_size=30).map("\n".join))
def test_a_verdict_is_final(text: str) -> None:
    outcome = judge(text)

    assert outcome.ok == bool(outcome.text)
    assert not outcome.ok or judge(outcome.text) == outcome


@pytest.mark.parametrize(
    "bomb",
    ["<think>", "</think>\n", "## Goal (", "**_ ", "sk-", "eyJa.", "-----BEGIN PRIVATE KEY-----"],
)
def test_an_answer_made_to_hurt_takes_no_time(bomb: str) -> None:
    long = bomb * (200_000 // len(bomb))
    started = time.process_time()

    check(f"{long}\n{GOOD}\n- {long}", task_of(user(long), previous=long, replaced=10**9))

    assert time.process_time() - started < 2
