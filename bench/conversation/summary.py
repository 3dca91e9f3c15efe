"""The scripted model's summaries: first sentences, as many as fit; it understands nothing."""

import re
from collections.abc import Iterator

from bench.conversation.prompt import Json, Prompt, count, text_of
from chat_proxy.compaction.summary.prompt import PROGRESS, SECTIONS

TOKENS = 1_200
_CUE = "Do not answer or continue the conversation"
_SENTENCE = re.compile(r".*?[.!?](?=\s|$)|[^\n]+", re.DOTALL)
_LONGEST = 160
_SECTION_OF = {"user": SECTIONS[1], "assistant": PROGRESS[0], "tool": SECTIONS[5]}

_Bullet = tuple[str, str]


def is_asked_for(prompt: Prompt) -> bool:
    """Tell whether a request asks for a summary."""
    return _CUE in text_of(prompt.messages[-1])


def summary(prompt: Prompt) -> str:
    """Return the first sentence of each message, thinned evenly until they fit."""
    room = min(TOKENS, int(prompt.fields.get("max_tokens") or TOKENS) * 3 // 4)
    bullets = list(dict.fromkeys(_bullets(prompt.messages[:-1])))
    costs = [count(text) + 2 for _, text in bullets]
    while bullets and sum(costs) > room:
        del bullets[1::4], costs[1::4]
    return "\n".join(_lines(bullets))


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


def _lines(bullets: list[_Bullet]) -> Iterator[str]:
    for section in SECTIONS:
        yield f"## {section}"
        names = PROGRESS if section == "Progress" else (section,)
        for name in names:
            if section == "Progress":
                yield f"### {name}"
            own = [text for of, text in bullets if of == name]
            yield from (f"- {text}" for text in own or ["(none)"])
