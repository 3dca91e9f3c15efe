"""Writing the demo model's summaries."""

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from chat_proxy.demo.model.messages import Call, Message, last_of
from chat_proxy.demo.model.template import count
from chat_proxy.demo.summary.transcript import has_headings, material, sections_in

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
CONSTRAINT = re.compile(r"\b(?:must|never|always|please|do not|don't)\b", re.IGNORECASE)
DECISION = re.compile(r"\b(?:decided?|chose|instead of|because|agreed)\b", re.IGNORECASE)
STEP = re.compile(r"\b(?:next|todo|remaining|i will|i'll|let me|need to)\b", re.IGNORECASE)
ERROR = re.compile(
    r"\b\w{0,60}(?:error|exception)\b|\b(?:failed|fatal|denied|refused|timed out|not found)\b",
    re.IGNORECASE,
)
MEASURE = re.compile(
    r"(?<![\w.])\d[\d.,]{0,15}\s?(?:%|°C|°F|€|\$|(?:ms|s|min|h|kB|KB|MB|GB|GiB|MiB|tokens|px|km|kg"
    r"|m|cm|mm|Hz|kHz|MHz|GHz|USD|EUR|degrees|seconds|minutes|hours|days|rows|bytes)\b)"
)
ADDRESS = re.compile(r"\w{2,10}://\S+")
PATH = re.compile(r"(?<![\w.@+/~-])[\w.@+~-]{0,80}(?:/[\w.@+-]{1,80}){1,12}(?![\w/])")
FILE = re.compile(
    r"(?<![\w.@+/~-])[\w-]{1,80}\.(?:py|js|ts|md|json|toml|ya?ml|txt|rs|go|cpp|java|sh|sql|html|css"
    r"|cfg|ini|lock|log|csv|[ch])(?![\w/])"
)
BULLET_CHARACTERS = 100
TOKENS_PER_BULLET = 400
MOST_BULLETS = 5

Extract = Callable[[tuple[Message, ...]], Iterable[str]]


def summarise(messages: tuple[Message, ...]) -> str:
    """Return a summary that quotes the conversation literally, section by section."""
    sources = material(messages)
    earlier = [sections_in(message.text) for message in sources if is_summary(message)]
    news = tuple(message for message in sources if not is_summary(message))
    size = sum(count(message.text) for message in sources)
    max_bullets = max(1, min(MOST_BULLETS, size // TOKENS_PER_BULLET))
    return "\n".join(
        chain.from_iterable(
            section(
                title, [b for e in earlier for b in e.get(name, ())], extract(news), max_bullets
            )
            for title, name, extract in SECTIONS_IN_ORDER
        )
    )


def is_summary(message: Message) -> bool:
    """Return whether a message is or contains an earlier summary."""
    return message.role == "summary" or has_headings(message.text)


def section(title: str, kept: list[str], news: Iterable[str], max_bullets: int) -> Iterator[str]:
    """Yield the lines of a section: the newest bullets, from earlier summaries and new messages."""
    bullets = [short(text) for text in (*kept, *news)]
    different = [bullet for bullet in dict.fromkeys(bullets) if bullet]
    chosen = different[:1] if title == "## Goal" else different[-max_bullets:]
    yield title
    yield from (f"- {bullet}" for bullet in chosen or ["(none)"])


def goal(messages: tuple[Message, ...]) -> Iterator[str]:
    """Yield the user messages; the first one is the goal."""
    yield from (message.text for message in messages if message.role == "user")


def constraints(messages: tuple[Message, ...]) -> Iterator[str]:
    """Yield the user's sentences that state a constraint or a preference."""
    return (text for text in sentences(messages, "user") if CONSTRAINT.search(text))


def done(messages: tuple[Message, ...]) -> Iterator[str]:
    """Yield the tool calls with a result that is no error."""
    return (f"{shown(call)}: {text}" for call, text in answered(messages) if not ERROR.search(text))


def in_progress(messages: tuple[Message, ...]) -> Iterator[str]:
    """Yield the tool calls without a result, and the newest user message."""
    closed = {id(call) for call, _ in answered(messages)}
    yield from (shown(call) for call in calls(messages) if id(call) not in closed)
    requests = [message.text for message in messages if message.role == "user"]
    yield from requests[1:][-1:]


def blocked(messages: tuple[Message, ...]) -> Iterator[str]:
    """Yield the tool calls whose result is an error."""
    return (f"{shown(call)}: {text}" for call, text in answered(messages) if ERROR.search(text))


def decisions(messages: tuple[Message, ...]) -> Iterator[str]:
    """Yield the assistant's sentences that sound like a decision."""
    return (text for text in sentences(messages, "assistant") if DECISION.search(text))


def next_steps(messages: tuple[Message, ...]) -> Iterator[str]:
    """Yield the steps that the assistant announces, else the newest user message."""
    steps = [text for text in sentences(messages, "assistant") if STEP.search(text)]
    yield from steps or [f"Answer: {last_of('user', messages).text}"]


def context(messages: tuple[Message, ...]) -> Iterator[str]:
    """Yield lines with errors, and sentences with a number and a unit."""
    for message in messages:
        yield from (line for line in message.text.splitlines() if ERROR.search(line))
        yield from (text for text in sentences_in(message.text) if MEASURE.search(text))


def files(messages: tuple[Message, ...]) -> Iterator[str]:
    """Yield all paths and file names in texts and tool arguments."""
    for message in messages:
        for text in (message.text, *(call.arguments for call in message.calls)):
            plain = ADDRESS.sub(" ", text)
            paths = (path.rstrip(".") for path in PATH.findall(plain))
            yield from (path for path in paths if looks_like_a_path(path))
            yield from FILE.findall(plain)


SECTIONS_IN_ORDER: tuple[tuple[str, str, Extract], ...] = (
    ("## Goal", "Goal", goal),
    ("## Constraints & Preferences", "Constraints & Preferences", constraints),
    ("## Progress\n### Done", "Done", done),
    ("### In Progress", "In Progress", in_progress),
    ("### Blocked", "Blocked", blocked),
    ("## Key Decisions", "Key Decisions", decisions),
    ("## Next Steps", "Next Steps", next_steps),
    ("## Critical Context", "Critical Context", context),
    ("## Relevant Files", "Relevant Files", files),
)


def calls(messages: Iterable[Message]) -> Iterator[Call]:
    """Yield all tool calls."""
    return (call for message in messages for call in message.calls)


def answered(messages: tuple[Message, ...]) -> list[tuple[Call, str]]:
    """Return the tool calls with their results; a call without id, in a transcript, is done."""
    results = {message.answers: message.text for message in messages if message.role == "tool"}
    pairs = ((call, results.get(call.id) if call.id else "done") for call in calls(messages))
    return [(call, text) for call, text in pairs if text is not None]


def shown(call: Call) -> str:
    """Return a call on one line."""
    return f"{call.name} {call.arguments}"


def looks_like_a_path(path: str) -> bool:
    """Return whether the text is a path and not just words separated by slashes."""
    rooted = path.startswith(("/", "~", "."))
    named = path.count("/") > 1 or "." in path.rpartition("/")[2]
    return (rooted or named) and any(character.isalpha() for character in path)


def sentences(messages: Iterable[Message], role: str) -> Iterator[str]:
    """Yield all sentences in the messages of a role."""
    return (s for message in messages if message.role == role for s in sentences_in(message.text))


def sentences_in(text: str) -> list[str]:
    """Split a text into sentences and lines."""
    return SENTENCE_END.split(text)


def short(text: str) -> str:
    """Return the beginning of a text on one line, cut only between words."""
    return textwrap.shorten(
        text, BULLET_CHARACTERS, placeholder=" …", break_long_words=False, break_on_hyphens=False
    )
