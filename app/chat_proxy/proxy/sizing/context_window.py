"""A model's context window, and its source."""

from dataclasses import dataclass

from chat_proxy.tokens.windows import known_input_limit, known_window


@dataclass(frozen=True, slots=True)
class LearnedLimits:
    """A model's limits in tokens, as its upstream gave them when it refused a prompt."""

    limit: int | None
    """The whole window: prompt and answer."""
    input_limit: int | None
    """The maximum prompt, if the answer is limited separately."""


@dataclass(frozen=True, slots=True)
class Window:
    """A context window in tokens, with its source: never guessed silently."""

    tokens: int
    source: str
    input_limit: int | None = None
    """The maximum of the prompt alone, if there is one."""


def find_window(
    model: str,
    *,
    setting: int | None,
    registry: int | None,
    discovered: int | None,
    learned: LearnedLimits | None = None,
) -> Window | None:
    """Return the model's window from the best source, None if no source has one.

    A limit that the upstream gave when it refused a prompt overrides all that are larger.
    """
    limits = learned or LearnedLimits(None, None)
    sources = {
        "setting": setting,
        "registry": registry,
        "discovery": discovered,
        "learned": limits.limit or limits.input_limit,
        "table": known_window(model),
    }
    known = ((source, tokens) for source, tokens in sources.items() if tokens)
    source, tokens = next(known, ("", 0))
    if not tokens:
        return None
    own = known_input_limit(model) if source == "table" else None
    if limits.limit and limits.limit < tokens:
        tokens, source = limits.limit, "learned"
    return Window(tokens, source, limits.input_limit or own)
