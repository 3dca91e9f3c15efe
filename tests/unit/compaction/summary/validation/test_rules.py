"""The rules of a summary that depend on its prompt and on its span."""

from dataclasses import replace

import pytest

from chat_proxy.compaction.summary.prompt import SECTIONS
from chat_proxy.compaction.summary.validation.template import sections_of
from chat_proxy.compaction.summary.validation.validate import Verdict
from tests.unit.chat.shapes import says, user
from tests.unit.compaction.summary.validation.examples import (
    CHINESE,
    CODING,
    EXAMPLES,
    GOOD,
    TALK,
    check,
    in_sections,
    judge,
    task_of,
)


@pytest.mark.parametrize("name", [name for name in SECTIONS if name != "Progress"])
def test_an_absent_section_is_filled_at_its_place(name: str) -> None:
    """FAULTS C9"""
    before, _, after = GOOD.partition(f"## {name}\n")
    rest = after.partition("\n")[2]

    outcome = judge(f"{before}{rest}")

    assert outcome.text == f"{before}## {name}\n- (none)\n{rest}".strip()


def test_three_of_seven_sections_may_be_absent() -> None:
    outcome = judge("## Next Steps\n- run\n## Goal\n- Fix\n## Relevant Files\n- a\n## Done\n- b")

    assert outcome.text == in_sections(
        goal="- Fix",
        progress="### Done\n- b\n### In Progress\n- (none)\n### Blocked\n- (none)",
        next_steps="- run",
        relevant_files="- a",
    )


def test_four_of_seven_are_most() -> None:
    """FAULTS C9"""
    outcome = judge("## Next Steps\n- run\n## Goal\n- Fix\n## Relevant Files\n- a")

    missing = ("Constraints & Preferences", "Progress", "Key Decisions", "Critical Context")
    assert outcome == Verdict("", "sections", missing)


PLAIN = "Anna leads the project. The launch is on 12 March; Ben writes the tests for it."


def test_where_sections_are_not_needed_a_text_without_them_is_taken_as_it_is() -> None:
    needed = task_of(user(PLAIN * 3))
    not_needed = task_of(user(PLAIN * 3), needs_sections=False)

    assert check(PLAIN, needed) == Verdict("", "sections", SECTIONS)
    assert check(PLAIN, not_needed) == Verdict(PLAIN)
    assert check(f"```\n{PLAIN}\n```", not_needed) == Verdict(PLAIN)


def test_where_sections_are_not_needed_they_may_be_there() -> None:
    span = user(f"Fix the build, never touch main, run the tests of app/main.py: OSError. {PLAIN}")

    assert check(GOOD, task_of(span, replaced=400, needs_sections=False)) == Verdict(GOOD)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I'm sorry, but I can't help with that.", "refusal"),
        ('I look. <tool_call>{"name": "f"}</tool_call>', "tool_calls"),
        ("Anna.", "too_short"),
        ("Error: the model is overloaded, please try again in some minutes.", "ungrounded"),
        ("项目由安娜负责,发布日期是三月十二日,测试由本来写,请大家注意时间安排。", "language"),
        (PLAIN * 3, "no_gain"),
        ("- (none)", "empty"),
    ],
)
def test_plain_text_must_follow_all_other_rules(text: str, reason: str) -> None:
    span = user(PLAIN * 3)

    for task in (task_of(span, needs_sections=False), task_of(span, sections=())):
        assert check(text, task) == Verdict("", reason)  # type: ignore[arg-type]


OWN = "Summarise the talk.\n\n## Who (the people)\n## When\n## What\n"


def test_the_sections_are_those_of_the_prompt_in_use() -> None:
    task = task_of(user(PLAIN * 4), sections=sections_of(OWN))

    outcome = check(
        "**Who:** Anna and Ben\n1. When\n- launch on 12 March; the tests before the launch", task
    )

    assert outcome.text == (
        "## Who\n- Anna and Ben\n## When\n- launch on 12 March; the tests before the launch\n"
        "## What\n- (none)"
    )


def test_built_in_sections_do_not_help_where_others_are_asked_for() -> None:
    outcome = check(GOOD, task_of(user(PLAIN * 4), sections=sections_of(OWN)))

    assert outcome == Verdict("", "sections", ("Who", "When", "What"))


def test_a_prompt_without_sections_accepts_any_sound_text() -> None:
    task = task_of(user(PLAIN * 3), sections=sections_of("Summarise like a pirate."))

    assert check(PLAIN, task) == Verdict(PLAIN)
    assert check(f"<think>Hm.</think>\n{PLAIN}", task) == Verdict(PLAIN)


@pytest.mark.parametrize("name", EXAMPLES)
def test_good_summaries_of_real_conversations_are_accepted(name: str) -> None:
    example = EXAMPLES[name]
    task = task_of(*example.messages * 3)

    assert check(in_sections(critical_context=example.good), task).ok


@pytest.mark.parametrize("name", EXAMPLES)
def test_invented_summaries_are_refused(name: str) -> None:
    """BUGS 30"""
    example = EXAMPLES[name]
    task = task_of(*example.messages * 3)

    assert check(in_sections(goal=example.invented), task).reason == "ungrounded"


def test_a_summary_of_pictures_need_not_repeat_the_words_around_them() -> None:
    task = task_of(user("And this?"), says("A boat."), replaced=6_000)

    assert check(in_sections(critical_context=TALK.invented), task).ok


@pytest.mark.parametrize("own", [CODING, CHINESE])
def test_another_script_than_the_conversation_s_is_refused(own: object) -> None:
    """BUGS 29"""
    summary, other = (CHINESE, TALK) if own is CODING else (TALK, CHINESE)
    task = task_of(*other.messages * 3)

    assert check(in_sections(critical_context=summary.good), task).reason == "language"


def test_a_few_words_do_not_stand_for_thousands_of_tokens() -> None:
    span = user("Some work on the parser was done today, and more work is to come. " * 200)
    task = task_of(span)
    assert task.replaced_tokens > 3_000

    few = in_sections(goal="- some work was done")
    enough = in_sections(goal="- some work on the parser was done today, more is to come\n" * 4)

    assert check(few, task) == Verdict("", "too_short")
    assert check(enough, task).ok


def test_a_short_span_may_have_a_short_summary() -> None:
    task = task_of(user("Call Anna at nine about the parser, please. " * 20))

    assert check(in_sections(goal="- call Anna at nine about the parser"), task).ok


def test_a_tiny_span_may_have_a_tiny_summary() -> None:
    task = task_of(user("Say hi to Anna."), replaced=300)

    assert check(in_sections(goal="- greet Anna"), task).ok


@pytest.mark.parametrize(
    "wished", ["- code name BLUE", f"- {TALK.invented}", f"- {CODING.good}"], ids=len
)
def test_a_wish_of_the_user_may_ask_for_another_length_language_or_subject(wished: str) -> None:
    task = task_of(*CHINESE.messages * 9)
    text = in_sections(critical_context=wished)

    assert check(text, task).reason in ("too_short", "language")
    assert check(text, replace(task, has_wish=True)) == Verdict(text)


EARLIER = in_sections(goal="- Repair the nightly export", next_steps="- read reports/export.py")


def updated(goal: str) -> str:
    task = task_of(*CODING.messages, previous=EARLIER, replaced=800)
    outcome = check(in_sections(goal=goal, critical_context=CODING.good), task)
    assert outcome.ok
    return outcome.text.partition("\n## Constraints")[0]


@pytest.mark.parametrize(
    "goal",
    [
        "- Repair the nightly export",
        "- Repair the export and add a test for an umlaut in a customer name",
        "- Fix UnicodeDecodeError in the nightly export, then in load_rows",
    ],
)
def test_a_goal_in_the_words_of_the_user_or_the_earlier_summary_is_taken(goal: str) -> None:
    assert updated(goal) == f"## Goal\n{goal}"


@pytest.mark.parametrize(
    "goal", ["- Organise a wedding in Tuscany for eighty guests", "- (none)", "- Win"]
)
def test_the_earlier_goal_stays_where_the_new_one_is_invented(goal: str) -> None:
    assert updated(goal) == "## Goal\n- Repair the nightly export"


def test_the_words_of_tools_make_no_goal() -> None:
    task = task_of(
        user("Fix the export."), says("pytest: migrate billing to Stripe " * 20), previous=EARLIER
    )

    goal = in_sections(goal="- migrate billing to Stripe", next_steps="- fix the nightly export")

    assert "## Goal\n- Repair the nightly export\n" in check(goal, task).text


def test_without_an_earlier_goal_the_new_one_is_taken() -> None:
    task = task_of(*CODING.messages, previous=in_sections(next_steps="- look"), replaced=800)
    text = in_sections(goal="- Ship", critical_context=CODING.good)

    assert check(text, task).text == text


def test_sections_of_an_operator_have_a_goal_as_well() -> None:
    sections = sections_of("## GOAL\n## Facts")
    task = task_of(*CODING.messages, previous=EARLIER, replaced=800, sections=sections)

    outcome = check(f"## Goal\n- Dance in Rome\n## Facts\n{CODING.good}", task)

    assert outcome.text.startswith("## GOAL\n- Repair the nightly export\n## Facts\n")
