"""Check whether an answer is a usable summary, and clean it."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from chat_proxy.compaction.summary.prompt import PROGRESS, SECTIONS
from chat_proxy.compaction.summary.sanitise import sanitised
from chat_proxy.compaction.summary.validation.foreign import without_foreign
from chat_proxy.compaction.summary.validation.reasoning import (
    holds_tool_protocol,
    without_reasoning,
)

Reason = Literal[
    "",
    "empty",
    "only_reasoning",
    "length",
    "content_filter",
    "tool_calls",
    "refusal",
    "sections",
    "no_gain",
    "foreign",
]

LARGEST_SHARE: Final = 0.6
MOST_FOREIGN: Final = 5

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
_HEADING = re.compile(
    r"[ \t]*+(?P<mark>#{1,6}+[ \t]*+(?:\*\*|__)?+|\*\*|__)?+(?:\d{1,2}[.)][ \t]*+)?+"
    r"(?P<title>[A-Za-z][A-Za-z&; -]{2,40}+)(?:\([^()\n]{0,80}\))?+"
    r"[ \t*_]*+(?P<colon>[:\uff1a]?+)[ \t*_]*+(?P<rest>.*)"
)
_AND = re.compile(r"&amp;|&|\band\b")
_NO_CONTENT = re.compile(r"[\W_]*+(?:none|n/a|nothing)?[\W_]*+", re.IGNORECASE)


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


def verdict(
    answer: SummaryAnswer, span_text: str, replaced_tokens: int, count: Callable[[str], int]
) -> Verdict:
    """Check an answer; `span_text` is everything that the model was given to summarise."""
    content = without_reasoning(answer.text)
    reason = _reason_of_finish(answer) or _reason_of_no_content(answer.text, content)
    if reason:
        return Verdict("", reason)
    lines = list(_sections(content))
    missing = _missing(lines)
    if missing:
        return _verdict_on_missing(answer.text, content, missing)
    if not any(_has_content(line) for line in lines):
        return Verdict("", "empty")
    text, foreign = without_foreign(sanitised(_unfenced("\n".join(lines))), span_text)
    if foreign > MOST_FOREIGN:
        return Verdict("", "foreign")
    if count(text) >= LARGEST_SHARE * replaced_tokens:
        return Verdict("", "no_gain")
    return Verdict(text)


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


def _verdict_on_missing(whole: str, content: str, missing: tuple[str, ...]) -> Verdict:
    """Return the verdict on missing sections: only a real attempt is worth a repair request."""
    if len(missing) == len(SECTIONS):
        if holds_tool_protocol(whole):
            return Verdict("", "tool_calls")
        if _REFUSAL.match(content):
            return Verdict("", "refusal")
    return Verdict("", "sections", missing)


def _sections(content: str) -> Iterator[str]:
    """Yield the lines from the first heading on, with normalised headings."""
    has_begun = False
    for line in content.splitlines():
        name, rest = _heading_in(line)
        has_begun = has_begun or bool(name)
        if name:
            yield f"### {name}" if name in PROGRESS else f"## {name}"
            if rest:
                yield f"- {rest}"
        elif has_begun:
            yield line.rstrip()


def _heading_in(line: str) -> tuple[str, str]:
    """Return the section that a line begins, in any markup, and the rest of the line."""
    match = _HEADING.match(line)
    name = _NAME_OF_KEY.get(_key(match["title"])) if match else None
    if not match or not name:
        return "", ""
    is_heading = match["colon"] or (match["mark"] and not match["rest"])
    return (name, match["rest"].strip()) if is_heading else ("", "")


def _key(title: str) -> str:
    """Return a title for comparison: without case, "and", "&", hyphens and plural."""
    words = _AND.sub(" ", title.lower()).replace("-", " ").split()
    return " ".join(words).rstrip("s")


_NAME_OF_KEY = {_key(name): name for name in (*SECTIONS, *PROGRESS)}


def _missing(lines: list[str]) -> tuple[str, ...]:
    """Return the sections without a heading; any subsection of Progress counts as Progress."""
    found = {line.lstrip("# ") for line in lines if line.startswith("#")}
    if found.intersection(PROGRESS):
        found.add("Progress")
    return tuple(name for name in SECTIONS if name not in found)


def _has_content(line: str) -> bool:
    return not line.startswith("#") and not _NO_CONTENT.fullmatch(line)


def _unfenced(text: str) -> str:
    """Drop the end of a code fence that was opened before the first heading."""
    text = text.strip()
    if text.endswith("\n```") and text.count("```") % 2:
        return text[:-3].rstrip()
    return text
