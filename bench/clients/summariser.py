"""The scripted model's summaries here: the first words of all that it was given, in any form."""

import re
from collections.abc import Iterator

from bench.conversation.prompt import Prompt, count
from bench.conversation.summarisers.request import (
    Passage,
    headings,
    max_tokens_of,
    passages,
    section_for,
    written,
)

TOKENS = 700
_LONGEST = 160
_LEAST_HEADINGS = 3


def summarise(prompt: Prompt) -> str:
    """Return the beginning of each passage, evenly thinned until they fit.

    A request without sections is answered with a list.
    """
    room = min(TOKENS, max_tokens_of(prompt.fields) * 3 // 4)
    outline = headings(prompt)
    bullets = list(dict.fromkeys(it for passage in passages(prompt) for it in _bullets(passage)))
    costs = [count(text) + 2 for _, text in bullets]
    while bullets and sum(costs) > room:
        del bullets[1::4], costs[1::4]
    if not outline:
        return "\n".join(f"- {text}" for _, text in bullets)
    sections: dict[str, list[str]] = {}
    for role, text in bullets:
        sections.setdefault(section_for(role, outline), []).append(text)
    return written(outline, sections)


def _bullets(passage: Passage) -> Iterator[tuple[str, str]]:
    """Yield the points of an earlier summary, or the beginning of any other passage."""
    if len(re.findall(r"^##", passage.text, re.MULTILINE)) >= _LEAST_HEADINGS:
        for line in passage.text.splitlines():
            if line.startswith("- ") and line != "- (none)":
                yield "assistant", line.removeprefix("- ")[:_LONGEST]
    elif text := " ".join(passage.text[: 2 * _LONGEST].split()):
        yield passage.role, text[:_LONGEST]
