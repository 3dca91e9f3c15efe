"""Check whether an answer is a usable summary, and clean it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from typing import Final, Literal

from chat_proxy.compaction.summary.sanitise import sanitised
from chat_proxy.compaction.summary.validation.foreign import without_foreign
from chat_proxy.compaction.summary.validation.grounding import is_grounded, known_share
from chat_proxy.compaction.summary.validation.language import has_foreign_script
from chat_proxy.compaction.summary.validation.reasoning import (
    holds_tool_protocol,
    without_reasoning,
)
from chat_proxy.compaction.summary.validation.sections import (
    Bodies,
    bodies_in,
    content_of,
    key_of,
    missing_in,
    written,
)
from chat_proxy.compaction.summary.validation.task import SummaryTask

Reason = Literal[
    "",
    "empty",
    "only_reasoning",
    "length",
    "content_filter",
    "tool_calls",
    "refusal",
    "sections",
    "foreign",
    "no_gain",
    "too_short",
    "language",
    "ungrounded",
]

LARGEST_SHARE: Final = 0.6
MOST_FOREIGN: Final = 5
MAX_LEAST_TOKENS: Final = 40
"""The least tokens of content in the summary of a span of any size."""
GOAL_SHARE: Final = 1 / 3
"""The least share of a new goal's words that the user or the earlier summary must have used."""

_MIN_LEAST_TOKENS = 8
_CHARS_PER_TOKEN = 4
_FENCE = "```"
_REASON_OF_FINISH: dict[str, Reason] = {
    "length": "length",
    "max_tokens": "length",
    "abort": "length",
    "error": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}
_REFUSAL = re.compile(
    r"\W*+(?:(?:i\Wm|i am|we\Wre) (?:so |very )?(?:sorry|unable|not able)|sorry|i apologi[sz]e"
    r"|(?:unfortunately,? )?i (?:can\W?t|cannot|can not|won\Wt|will not|must decline|decline)"
    r"|as an ai|es tut mir leid|entschuldigung|(?:leider )?kann ich|ich kann|je suis désolé|désolé"
    r"|lo siento|desculpe|mi dispiace|извините|抱歉|对不起|很抱歉|我无法|申し訳|すみません|죄송)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SummaryAnswer:
    """A model's answer to the request for a summary."""

    text: str
    finish_reason: str | None = "stop"
    has_tool_calls: bool = False
    refusal: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The cleaned summary with normalised headings; empty if there is a reason to refuse it."""

    text: str
    reason: Reason = ""
    missing: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the summary may be used."""
        return not self.reason


def verdict(answer: SummaryAnswer, task: SummaryTask, count: Callable[[str], int]) -> Verdict:
    """Check an answer to a task; `count` returns the tokens of a text."""
    content = without_reasoning(answer.text)
    reason = _reason_of_finish(answer) or _reason_of_no_content(answer.text, content)
    if reason:
        return Verdict("", reason)
    bodies = bodies_in(content, task.sections)
    missing = missing_in(bodies, task.sections)
    is_plain = not task.sections or 2 * len(missing) > len(task.sections)
    if is_plain:
        reason = _reason_of_plain_text(answer.text, content, bodies)
        if not reason and task.sections and task.needs_sections:
            return Verdict("", "sections", missing)
    text = _unfenced(content) if is_plain else written(bodies, task.sections)
    text, foreign = without_foreign(sanitised(text), _given(task))
    if not is_plain:
        text = _with_grounded_goal(text, task)
    reason = reason or _reason_of_content(text, foreign, task, count)
    return Verdict("", reason) if reason else Verdict(text)


def _reason_of_finish(answer: SummaryAnswer) -> Reason:
    if answer.has_tool_calls:
        return "tool_calls"
    if answer.refusal:
        return "refusal"
    return _REASON_OF_FINISH.get(answer.finish_reason or "", "")


def _reason_of_no_content(whole: str, content: str) -> Reason:
    if content:
        return ""
    if holds_tool_protocol(whole):
        return "tool_calls"
    return "only_reasoning" if whole.strip() else "empty"


def _reason_of_plain_text(whole: str, content: str, bodies: Bodies) -> Reason:
    """Return why a text is no attempt at a summary, so that asking for sections is no use."""
    if bodies:
        return ""
    if holds_tool_protocol(whole):
        return "tool_calls"
    return "refusal" if _REFUSAL.match(content) else ""


def _reason_of_content(
    text: str, foreign: int, task: SummaryTask, count: Callable[[str], int]
) -> Reason:
    """Return why a text cannot stand for the task's span."""
    content = content_of(text)
    if not content:
        return "empty"
    if foreign > MOST_FOREIGN:
        return "foreign"
    if count(text) >= LARGEST_SHARE * task.replaced_tokens:
        return "no_gain"
    return "" if task.has_wish else _reason_of_meaning(content, task, count)


def _reason_of_meaning(content: str, task: SummaryTask, count: Callable[[str], int]) -> Reason:
    """Return why the content cannot be what the task's span is about."""
    if count(content) < _least_tokens(task):
        return "too_short"
    if has_foreign_script(content, task.dialogue):
        return "language"
    if not (_is_mostly_media(task) or is_grounded(content, _given(task))):
        return "ungrounded"
    return ""


def _least_tokens(task: SummaryTask) -> int:
    """Return the least tokens of content: a hundredth of the span's text, within bounds.

    A span of a few words may have a summary of fewer.
    """
    span = min(task.replaced_tokens, len(task.span_text) // _CHARS_PER_TOKEN)
    return min(MAX_LEAST_TOKENS, max(span // 100, min(_MIN_LEAST_TOKENS, span // 10)))


def _is_mostly_media(task: SummaryTask) -> bool:
    """Return whether the model saw pictures rather than texts: no text then grounds a summary.

    A token of text has a byte at least, and about four in most languages.
    """
    return len(task.span_text.encode(errors="replace")) < task.replaced_tokens


def _given(task: SummaryTask) -> str:
    """Return everything that the model saw."""
    return f"{task.instructions}\n{task.previous}\n{task.span_text}"


def _with_grounded_goal(text: str, task: SummaryTask) -> str:
    """Return a summary with the earlier goal if the new one is invented or absent."""
    goal = next((it.title for it in task.sections if key_of(it.title) == "goal"), "")
    found = bodies_in(task.previous, task.sections).get(goal, ())
    earlier = list(takewhile(lambda line: not line.startswith("#"), found))
    if not content_of("\n".join(earlier)):
        return text
    bodies = bodies_in(text, task.sections)
    new = content_of("\n".join(bodies.get(goal, ())))
    if new and known_share(new, f"{task.user_text}\n{task.previous}") >= GOAL_SHARE:
        return text
    return written({**bodies, goal: earlier}, task.sections)


def _unfenced(content: str) -> str:
    """Drop a code fence around a whole text."""
    first, _, rest = content.partition("\n")
    inside, _, last = rest.rpartition("\n")
    return inside.strip() if first.startswith(_FENCE) and last == _FENCE else content
