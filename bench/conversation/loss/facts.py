"""The 200 facts that a session must not lose: eight kinds, each fact with a key of its own."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from bench.conversation.texts import NOUNS, PARTS, VERBS, Texts

Kind = Literal[
    "user constraint",
    "user fact",
    "decision",
    "file path",
    "failing test",
    "number in output",
    "config value",
    "image content",
]
COUNTS: dict[Kind, int] = {
    "user constraint": 25,
    "user fact": 25,
    "decision": 25,
    "file path": 25,
    "failing test": 25,
    "number in output": 30,
    "config value": 30,
    "image content": 15,
}
TOOL_ONLY: tuple[Kind, ...] = ("failing test", "number in output", "config value")

_BIRDS = """
    kestrel heron osprey plover curlew gannet dunlin avocet bittern linnet siskin wryneck merlin
    hobby petrel fulmar turnstone whimbrel redshank greenshank
"""
_CONSTRAINTS = (
    ("Never rename {key}, other teams import it.", "never rename {key}"),
    ("Always run the checks with the profile {key}.", "run checks with profile {key}"),
    ("Please do not touch the branch {key} at all.", "do not touch branch {key}"),
    ("Every new table must carry the prefix {key} from now on.", "new tables: prefix {key}"),
    ("You must not call the service {key} from tests.", "tests must not call {key}"),
)
_USER_FACTS = (
    ("The customer who reported it is known as {key}.", "customer: {key}"),
    ("Our staging host is called {key}.", "staging host: {key}"),
    ("I like the naming that we used in {key} best.", "user likes the naming of {key}"),
    ("The deadline is tied to the release {key}.", "deadline: release {key}"),
    ("The old job was named {key} before the move.", "old job: {key}"),
)
_DECISIONS = (
    ("I decided to keep the retries in {key}, since the queue drops them.", "retries go to {key}"),
    ("We go with the approach of {key} instead of a lock.", "{key} instead of a lock"),
    ("I settled on {key} for the cache, as it survives a restart.", "cache: {key}"),
    ("My choice for the migration is {key}; it can be undone.", "migration by {key}"),
)
_PATHS = (
    ("The change belongs into {key}, next to the parser.", "{key}: change belongs here"),
    ("I moved the helper to {key} and updated its callers.", "{key}: has the helper now"),
    ("The entry point is {key}.", "{key}: entry point"),
)
_IMAGES = (
    ("The screenshot shows a settings page with the banner {key}.", "screenshot: banner {key}"),
    ("In the diagram the middle box is labelled {key}.", "diagram: middle box {key}"),
    ("The chart has its peak at the mark {key}.", "chart: peak at {key}"),
)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something to remember.

    `said` is the sentence or the line in which it stands in the session, and the only one with the
    key; `note` is what a summary would say of it.
    """

    kind: Kind
    key: str
    said: str
    note: str


def facts(seed: int) -> list[Fact]:
    """Return all facts; the same for the same seed."""
    texts = Texts(f"facts {seed}")
    keys = _Keys(texts)
    return [_MAKERS[kind](texts, keys) for kind, number in COUNTS.items() for _ in range(number)]


def others(kind: Kind, facts_asked: Iterable[Fact], texts: Texts) -> Iterator[Fact]:
    """Yield facts of a kind that nobody asks for, without end."""
    known = {fact.key for fact in facts_asked}
    while True:
        keys = _Keys(texts)
        made = (_MAKERS[kind](texts, keys) for _ in range(COUNTS[kind]))
        yield from (fact for fact in made if fact.key not in known)


class _Keys:
    """Gives out words and numbers, each of them once."""

    def __init__(self, texts: Texts) -> None:
        numbers = texts.random.sample(range(10_000, 100_000), 2 * sum(COUNTS.values()))
        self._numbers: Iterator[int] = iter(numbers)
        self._random = texts.random

    def number(self) -> int:
        return next(self._numbers)

    def word(self, separator: str = "-") -> str:
        return f"{self._random.choice(_BIRDS.split())}{separator}{self.number()}"


_Maker = Callable[[Texts, _Keys], Fact]


def _spoken(kind: Kind, forms: tuple[tuple[str, str], ...]) -> _Maker:
    def make(texts: Texts, keys: _Keys) -> Fact:
        said, note = texts.random.choice(forms)
        key = keys.word()
        return Fact(kind, key, said.format(key=key), note.format(key=key))

    return make


def _path(texts: Texts, keys: _Keys) -> Fact:
    said, note = texts.random.choice(_PATHS)
    key = f"src/{texts.random.choice(PARTS)}/{keys.word('_')}.py"
    return Fact("file path", key, said.format(key=key), note.format(key=key))


def _failing_test(texts: Texts, keys: _Keys) -> Fact:
    key = f"test_{texts.random.choice(VERBS)}s_{keys.word('_')}"
    file = f"tests/{texts.random.choice(PARTS)}/test_{texts.random.choice(NOUNS)}.py"
    wanted, got = texts.random.randint(2, 40), texts.random.randint(41, 90)
    said = f"FAILED {file}::{key} - AssertionError: assert {got} == {wanted}"
    return Fact("failing test", key, said, f"{key} fails")


def _number(texts: Texts, keys: _Keys) -> Fact:
    part, verb = texts.random.choice(PARTS), texts.random.choice(VERBS)
    key = f"{keys.number()}.{texts.random.randint(101, 999)}"
    unit = texts.random.choice(("ms", "MiB", "rows/s"))
    note = f"{part}.{verb} p99 {key} {unit}"
    return Fact("number in output", key, f"{part}.{verb} p99 over 1200 runs: {key} {unit}", note)


def _config(texts: Texts, keys: _Keys) -> Fact:
    name = f"{texts.random.choice(PARTS)}_{texts.random.choice(NOUNS)}_limit"
    key = f"{keys.number()}{texts.random.randint(10, 99)}"
    return Fact("config value", key, f"{name} = {key}", f"{name} {key}")


_MAKERS: dict[Kind, _Maker] = {
    "user constraint": _spoken("user constraint", _CONSTRAINTS),
    "user fact": _spoken("user fact", _USER_FACTS),
    "decision": _spoken("decision", _DECISIONS),
    "file path": _path,
    "failing test": _failing_test,
    "number in output": _number,
    "config value": _config,
    "image content": _spoken("image content", _IMAGES),
}
