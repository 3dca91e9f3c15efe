"""What upstreams taught about their windows by refusing what was too long."""

from dataclasses import dataclass

from chat_proxy.tokens.windows import known_input_limit, known_window


@dataclass(frozen=True, slots=True)
class LearnedLimits:
    """A model's limits as its upstream told them, in tokens."""

    limit: int | None
    """The whole window: prompt and answer."""
    input_limit: int | None
    """The longest prompt, where the answer is counted apart."""


@dataclass(frozen=True, slots=True)
class Window:
    """A context window in tokens, with its source: never guessed silently."""

    tokens: int
    source: str
    input_limit: int | None = None
    """What the prompt alone may take, where that is less than the rest of the window."""


def find_window(
    model: str,
    *,
    setting: int | None,
    registry: int | None,
    discovered: int | None,
    learned: LearnedLimits | None = None,
) -> Window | None:
    """Return the model's window by the best source there is, nothing if nobody knows.

    What the upstream itself said when it refused a prompt goes before all that is larger.
    """
    limits = learned or LearnedLimits(None, None)
    sources = {
        "setting": setting,
        "registry": registry,
        "discovery": discovered,
        "learned": limits.limit or limits.input_limit,
        "table": known_window(model),
    }
    told = ((source, tokens) for source, tokens in sources.items() if tokens)
    source, tokens = next(told, ("", 0))
    if not tokens:
        return None
    own = known_input_limit(model) if source == "table" else None
    if limits.limit and limits.limit < tokens:
        tokens, source = limits.limit, "learned"
    return Window(tokens, source, limits.input_limit or own)
