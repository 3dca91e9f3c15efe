"""Tool outputs of a given length: test runs, logs, settings files and code, with facts in them."""

from collections.abc import Callable, Sequence

from bench.conversation.loss.facts import Fact, Kind
from bench.conversation.texts import NOUNS, PARTS, VERBS, Texts

Output = tuple[str, dict[str, str], str]
"""The tool's name, the call's arguments and the result."""

_SESSION = "==================== test session starts ===================="
_LOG = (
    "{part}.worker picked up batch",
    "{part}.worker finished batch",
    "{part}.gateway answered 200",
    "{part}.scheduler tick",
    "{part}.storage flushed the journal",
    "{part}.mailer nothing to send",
)
_SETTINGS = ("true", "false", '"auto"', '"eu"', "2", "8", "30", "[]")


def output_with(kind: Kind, facts: Sequence[Fact], chars: int, texts: Texts) -> Output:
    """Return a call of the tool that shows facts of this kind, and its result."""
    return _WRITERS[kind](facts, chars, texts)


def code(chars: int, texts: Texts) -> Output:
    """Return a file that was read, without any fact."""
    lines = texts.code(chars // 40)[:chars]
    return "read_file", {"path": texts.path(), "lines": "1-400"}, lines


def _test_run(facts: Sequence[Fact], chars: int, texts: Texts) -> Output:
    """Return a test run: its failures stand where they happened, between what passed."""
    lines = _filled(lambda: _passed(texts), facts, chars - 2 * len(_SESSION), texts)
    number = len(lines) - len(facts)
    end = f"======= {len(facts)} failed, {number} passed in {number % 60}.31s ======="
    return "run_command", {"command": "pytest tests"}, "\n".join([_SESSION, *lines, end])


def _passed(texts: Texts) -> str:
    part, noun = texts.random.choice(PARTS), texts.random.choice(NOUNS)
    name = f"{texts.random.choice(VERBS)}s_{texts.random.choice(NOUNS)}"
    return f"PASSED tests/{part}/test_{noun}.py::test_{name}"


def _log(facts: Sequence[Fact], chars: int, texts: Texts) -> Output:
    """Return what a service writes: the same few lines again and again."""
    part = texts.random.choice(PARTS)
    lines = [
        f"2031-03-04 10:{at // 60 % 60:02d}:{at % 60:02d} INFO {text}"
        for at, text in enumerate(
            _filled(lambda: texts.random.choice(_LOG).format(part=part), facts, chars, texts, 25)
        )
    ]
    return "run_command", {"command": f"make load PART={part}"}, "\n".join(lines)


def _settings(facts: Sequence[Fact], chars: int, texts: Texts) -> Output:
    """Return a settings file, numbered as agents read it."""
    filled = _filled(lambda: _setting(texts), facts, chars, texts, 6)
    lines = [f"{at:>5}\t{text}" for at, text in enumerate(filled, start=1)]
    path = f"config/{texts.random.choice(PARTS)}.toml"
    return "read_file", {"path": path, "lines": "1-400"}, "\n".join(lines)


def _setting(texts: Texts) -> str:
    if texts.random.random() < 0.3:
        return f"# {texts.sentence(7)}"
    name = f"{texts.random.choice(PARTS)}_{texts.random.choice(NOUNS)}_{texts.random.choice(VERBS)}"
    return f"{name} = {texts.random.choice(_SETTINGS)}"


def _filled(
    line: Callable[[], str], facts: Sequence[Fact], chars: int, texts: Texts, margin: int = 0
) -> list[str]:
    """Return lines of about so many characters with their margins, facts at random places."""
    lines: list[str] = []
    left = chars - sum(len(fact.said) + margin + 1 for fact in facts)
    while left > 0:
        lines.append(line())
        left -= len(lines[-1]) + margin + 1
    for fact in facts:
        lines.insert(texts.random.randrange(len(lines) + 1), fact.said)
    return lines


_WRITERS: dict[Kind, Callable[[Sequence[Fact], int, Texts], Output]] = {
    "failing test": _test_run,
    "number in output": _log,
    "config value": _settings,
}
