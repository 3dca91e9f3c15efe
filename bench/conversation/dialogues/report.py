"""The tables of a run over dialogues."""

from collections.abc import Iterator, Sequence

from bench.conversation.dialogues.replay import POINTS, Outcome

_COLUMNS = (
    "window",
    "dialogue",
    "questions",
    "chat-proxy, at the end",
    "drop oldest",
    "ratio",
    "over its second half",
    "drop oldest",
    "ratio",
    "refused",
    "side-queries",
    "billed",
    "drop oldest, billed",
    "last prompt",
)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a row for each dialogue in each window, and one for each window's sum."""
    return "\n".join(_rows(outcomes))


def share(outcomes: Sequence[Outcome], point: int) -> tuple[float, float]:
    """Return the shares of questions at a point that the proxy's and the other prompt answer."""
    asked = [outcome.asked[point] for outcome in outcomes]
    number = max(1, sum(it.questions for it in asked))
    return (
        sum(it.by_proxy for it in asked) / number,
        sum(it.by_drop_oldest for it in asked) / number,
    )


def mean_share(outcomes: Sequence[Outcome]) -> tuple[float, float]:
    """Return the means of both shares over the points."""
    shares = [share(outcomes, point) for point in range(len(POINTS))]
    return (
        sum(ours for ours, _ in shares) / len(shares),
        sum(theirs for _, theirs in shares) / len(shares),
    )


def _rows(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield f"| {' | '.join(_COLUMNS)} |"
    yield f"|{'---|' * len(_COLUMNS)}"
    for window in dict.fromkeys(it.window for it in outcomes):
        own = [it for it in outcomes if it.window == window]
        for outcome in own:
            yield _row(outcome.dialogue, [outcome])
        if len(own) > 1:
            yield _row("**all**", own)


def _compared(ours: float, theirs: float) -> tuple[str, str, str]:
    return f"{ours:.1%}", f"{theirs:.1%}", f"{ours / theirs:.2f}" if theirs else "-"


def _row(name: str, outcomes: Sequence[Outcome]) -> str:
    cells = (
        f"{outcomes[0].window:,}",
        name,
        f"{sum(it.asked[-1].questions for it in outcomes)}",
        *_compared(*share(outcomes, -1)),
        *_compared(*mean_share(outcomes)),
        f"{sum(it.refused for it in outcomes)} of {sum(it.requests for it in outcomes)}",
        f"{sum(it.side_queries for it in outcomes)}",
        f"{sum(it.billed for it in outcomes):,.0f}",
        f"{sum(it.drop_billed for it in outcomes):,.0f}",
        f"{sum(it.last_tokens for it in outcomes) / len(outcomes):,.0f}",
    )
    return f"| {' | '.join(cells)} |"
