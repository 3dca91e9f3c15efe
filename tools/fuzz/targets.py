"""What is fuzzed: one target for each subject."""

from ast import literal_eval
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

_HERE = Path(__file__).parent
CORPUS = _HERE / "corpus"
WORDS = _HERE / "words"


@dataclass(frozen=True, slots=True)
class Target:
    """Takes any bytes; a mistake is any exception, most often a failed assertion."""

    name: str
    subject: str
    function: str

    def load(self) -> Callable[[bytes], None]:
        """Import the subject, as late as that: coverage is watched from the import on."""
        module = import_module(f"tools.fuzz.subjects.{self.subject}")
        found: Callable[[bytes], None] = getattr(module, self.function)
        return found

    def seeds(self) -> list[bytes]:
        """Return the inputs that are kept, in a fixed order."""
        return [file.read_bytes() for file in sorted((CORPUS / self.name).iterdir())]

    @property
    def word_file(self) -> Path:
        """Words that lead into the subject's branches, in libFuzzer's form."""
        return WORDS / f"{self.name}.dict"

    def words(self) -> list[bytes]:
        """Return those words."""
        return [literal_eval(f"b{line}") for line in self.word_file.read_text().splitlines()]


TARGETS = {
    target.name: target
    for target in (
        Target("request", "requests", "read_any_body"),
        Target("api", "api_bodies", "rewrite_any_body"),
        Target("stream", "streams", "tap_any_stream"),
        Target("own", "own_streams", "edit_any_stream"),
        Target("seal", "seals", "open_any_seal"),
        Target("overflow", "errors", "read_any_error"),
        Target("image", "images", "measure_any_image"),
        Target("marker", "markers", "mark_any_text"),
        Target("result", "results", "age_any_result"),
        Target("registry", "registries", "read_any_registry"),
        Target("row", "rows", "read_any_row"),
        Target("headers", "headers", "pass_any_headers"),
        Target("wire", "wire", "send_any_bytes"),
    )
}
