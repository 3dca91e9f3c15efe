"""Texts as tools, users and models write them: made up, and the same for the same seed."""

import json
from random import Random

_PARTS = (
    "billing checkout invoice ledger refund catalog search basket session account profile export "
    "import webhook scheduler worker mailer audit report metrics gateway storage upload preview"
)
PARTS = _PARTS.split()
_VERBS = "load parse check merge apply build render store fetch drop retry flush sort group"
VERBS = _VERBS.split()
_NOUNS = (
    "order customer amount record window batch cursor header token region currency address total "
    "event limit status queue shard index schema field value entry page"
)
NOUNS = _NOUNS.split()
_PROSE = (
    "the service keeps every change in a journal so that a restart finds the same state and the "
    "reader sees it in order while old entries are merged at night because the table grows with "
    "each import and a slow disk holds up all others when many clients ask for the same page"
)
PROSE = _PROSE.split()
LEVELS = ("DEBUG", "INFO", "INFO", "INFO", "WARNING", "ERROR")


class Texts:
    """A writer of made-up texts."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)

    def path(self) -> str:
        """Return the path of a source file."""
        one, two = self.random.choices(PARTS, k=2)
        return f"src/{one}/{two}_{self.random.choice(NOUNS)}.py"

    def sentence(self, words: int = 14) -> str:
        """Return a sentence."""
        said = self.random.choices(PROSE + NOUNS + PARTS, k=words)
        return f"{' '.join(said).capitalize()}."

    def prose(self, words: int) -> str:
        """Return paragraphs."""
        sentences = [self.sentence(self.random.randint(8, 20)) for _ in range(max(1, words // 14))]
        return "\n\n".join(" ".join(sentences[at : at + 4]) for at in range(0, len(sentences), 4))

    def code(self, lines: int) -> str:
        """Return a part of a file, numbered as agents read it."""
        return "\n".join(f"{number:>5}\t{self._line()}" for number in range(1, lines + 1))

    def log(self, lines: int) -> str:
        """Return what a service or a test run writes."""
        return "\n".join(
            f"2031-03-{self.random.randint(1, 28):02d} 10:{number % 60:02d}:"
            f"{self.random.randint(0, 59):02d} {self.random.choice(LEVELS)} "
            f"{self.random.choice(PARTS)}.{self.random.choice(VERBS)} {self.sentence(7)}"
            for number in range(lines)
        )

    def matches(self, lines: int) -> str:
        """Return what a search finds."""
        return "\n".join(
            f"{self.path()}:{self.random.randint(1, 900)}:{self._line()}" for _ in range(lines)
        )

    def rows(self, number: int) -> str:
        """Return a query's answer as JSON."""
        rows = [
            {
                "id": self.random.randint(1000, 99_999),
                "status": self.random.choice(("open", "paid", "void")),
                self.random.choice(NOUNS): self.random.choice(PARTS),
                "note": self.sentence(6),
            }
            for _ in range(number)
        ]
        return json.dumps(rows)

    def key(self, kind: str) -> str:
        """Return a word that no other text of the session has."""
        word = f"{self.random.choice(PARTS)}-{self.random.choice(NOUNS)}"
        return f"{kind}-{word}-{self.random.randint(10_000, 99_999)}"

    def _line(self) -> str:
        verb, noun, other = self.random.choice(VERBS), *self.random.choices(NOUNS, k=2)
        forms = (
            f"def {verb}_{noun}(self, {other}: str) -> int:",
            f'    """{self.sentence(8)}"""',
            f"    {noun} = self._{verb}({other}, limit={self.random.randint(1, 500)})",
            f"    if {noun} is None or {other}.{noun} > {self.random.randint(1, 90)}:",
            f"        return {verb}_{other}({noun})",
            "",
        )
        return self.random.choice(forms)
