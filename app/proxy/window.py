"""How large a model's window is, and who says so."""

from dataclasses import dataclass

from app.tokens.windows import known_window


@dataclass(frozen=True, slots=True)
class Window:
    """A context window in tokens, with its source: never guessed silently."""

    tokens: int
    source: str


def find_window(
    model: str, *, setting: int | None, registry: int | None, discovered: int | None
) -> Window | None:
    """Return the model's window by the best source there is, nothing if nobody knows."""
    sources = {
        "setting": setting,
        "registry": registry,
        "discovery": discovered,
        "table": known_window(model),
    }
    for source, tokens in sources.items():
        if tokens:
            return Window(tokens, source)
    return None
