"""The scripted model's summaries: first sentences, as many as fit; it understands nothing."""

import re
from collections.abc import Iterator

from bench.conversation.prompt import Json, Prompt, count, text_of
from bench.conversation.summarisers.request import headings, written

TOKENS = 1_200
_SENTENCE = re.compile(r".*?[.!?](?=\s|$)|[^\n]+", re.DOTALL)
_LONGEST = 160
_SECTION_OF = {"user": "Constraints & Preferences", "assistant": "Done", "tool": "Critical Context"}

_Bullet = tuple[str, str]


def summary(prompt: Prompt) -> str:
    """Return the first sentence of each message, thinned evenly until they fit."""
    room = min(TOKENS, int(prompt.fields.get("max_tokens") or TOKENS) * 3 // 4)
    bullets = list(dict.fromkeys(_bullets(prompt.messages[:-1])))
    costs = [count(text) + 2 for _, text in bullets]
    while bullets and sum(costs) > room:
        del bullets[1::4], costs[1::4]
    sections: dict[str, list[str]] = {}
    for section, text in bullets:
        sections.setdefault(section, []).append(text)
    return written(headings(prompt), sections)


def _bullets(messages: list[Json]) -> Iterator[_Bullet]:
    """Yield what an earlier summary says as it is, and of each other message its beginning."""
    for message in messages:
        text = text_of(message)
        if "## Goal" in text:
            yield from _earlier(text)
        elif message["role"] in _SECTION_OF and (first := _SENTENCE.search(text)):
            yield _SECTION_OF[message["role"]], " ".join(first[0].split())[:_LONGEST]


def _earlier(text: str) -> Iterator[_Bullet]:
    section = ""
    for line in text.splitlines():
        if line.startswith("#"):
            section = line.strip("# ")
        elif line.startswith("- ") and line != "- (none)" and section:
            yield section, line.removeprefix("- ")
