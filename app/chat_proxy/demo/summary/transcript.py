"""Reading summary requests: transcripts and earlier summaries."""

import re
from collections.abc import Iterable, Iterator

from chat_proxy.demo.model.messages import INSTRUCTION_ROLES, Call, Message

HEADINGS = (
    "Goal",
    "Constraints & Preferences",
    "Progress",
    "Key Decisions",
    "Next Steps",
    "Critical Context",
    "Relevant Files",
)
SECTIONS = (*HEADINGS, "Done", "In Progress", "Blocked")
ENOUGH_HEADINGS = 4
ROLE = r"(system|developer|user|assistant|tool|summary)"
QUALIFIER = r"(?:[*\])>]|\s?[\[(][^)\]\n]{0,40}[)\]]|\s?#?\d++)"
SPOKEN_LABEL = re.compile(rf"^[*\[(<]{{0,3}}{ROLE}{QUALIFIER}{{0,3}}\s?:(.*)$", re.IGNORECASE)
FRAMED_LABEL = re.compile(
    r"^\s*+(?:[<\[{|]|#{2,}+|==|--)[^\w\n/]{0,10}"
    r"(?:(?:message|msg|turn|entry|begin|start|previous)\b[^\n]{0,40}?\b)?"
    rf"{ROLE}\b(?:[^\n]{{0,60}}[>\]}}|#=-])?\s*$",
    re.IGNORECASE,
)
END_LABEL = re.compile(r"^\s*(?:[<\[({|]+\s*/|(?:[<\[({|]|==|--)\W*end\b)", re.IGNORECASE)
WRITTEN_CALL = re.compile(r"(?<![\w.-])([A-Za-z_][\w.-]{1,63})\s?\(?\s?(\{[^{}\n]{0,200}\})")
SECTION = re.compile(rf"^#{{1,4}}\s*({'|'.join(map(re.escape, SECTIONS))})\s*$")
BULLET = re.compile(r"^\s*[-*]\s+(.+)$")


def has_headings(text: str) -> bool:
    """Return whether a text contains most section headings of a summary."""
    return sum(heading in text for heading in HEADINGS) >= ENOUGH_HEADINGS


def asks_for_summary(messages: tuple[Message, ...]) -> bool:
    """Return whether the newest message is a user's request for a summary."""
    return messages[-1].role == "user" and has_headings(messages[-1].text)


def material(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the messages to summarise: the conversation, or the transcript in the request."""
    *earlier, asked = messages
    spoken = [message for message in earlier if message.role not in INSTRUCTION_ROLES]
    written = tuple(blocks(asked.text))
    if spoken:
        return (*(block for block in written if block.role == "summary"), *spoken)
    return written or (Message("user", "\n".join(plain_lines(asked.text))),)


def plain_lines(text: str) -> Iterator[str]:
    """Yield the lines without headings: a request without a transcript is summarised itself."""
    return (line for line in text.splitlines() if not any(name in line for name in HEADINGS))


def blocks(text: str) -> Iterator[Message]:
    """Yield the messages of a transcript; text without a label is skipped."""
    role, lines = "", list[str]()
    for line in text.splitlines():
        label = SPOKEN_LABEL.match(line) or FRAMED_LABEL.match(line)
        if not label and not END_LABEL.match(line):
            lines.append(line)
            continue
        yield from block(role, lines)
        role = label[1].lower() if label else ""
        lines = list(label.groups()[1:]) if label else []
    yield from block(role, lines)


def block(role: str, lines: Iterable[str]) -> Iterator[Message]:
    """Yield one message of a transcript, with the tool calls in an assistant's text."""
    text = "\n".join(lines).strip()
    if role and role not in INSTRUCTION_ROLES and text:
        found = WRITTEN_CALL.findall(text) if role == "assistant" else []
        yield Message(role, text, calls=tuple(Call("", name, args) for name, args in found))


def sections_in(text: str) -> dict[str, list[str]]:
    """Return the bullets of an earlier summary by section."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in text.splitlines():
        if heading := SECTION.match(line):
            section = heading[1]
        elif section and (bullet := BULLET.match(line)) and bullet[1] != "(none)":
            found.setdefault(section, []).append(bullet[1])
    return found
