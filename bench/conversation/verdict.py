"""Where chat-proxy is not the cheapest, or forgets more than another."""

from collections.abc import Iterator, Sequence

from bench.conversation.replay import Outcome
from bench.conversation.systems import CHAT_PROXY, UNLIMITED

# Needles are few: a share is known no better than this.
SAME_RECALL = 0.005


def losses(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a sentence for every system that was cheaper or remembered more.

    Costs are compared over all sessions, on the requests that the other one answered before it
    was first refused: whoever answers less must not look cheaper for it.
    """
    systems = dict.fromkeys(
        it.system for it in outcomes if it.system not in (CHAT_PROXY, UNLIMITED)
    )
    return [loss for system in systems for loss in _losses_to(system, outcomes)]


def same_requests(ours: Outcome, theirs: Outcome) -> tuple[float, float]:
    """Return what both were billed for the requests that the other answered at first."""
    number = theirs.answered_at_first
    return ours.billed_until(number), theirs.billed_until(number)


def pairs(system: str, outcomes: Sequence[Outcome]) -> list[tuple[Outcome, Outcome]]:
    """Return our outcome and another system's for each session that both have."""
    ours = {it.session: it for it in outcomes if it.system == CHAT_PROXY}
    return [(ours[it.session], it) for it in outcomes if it.system == system and it.session in ours]


def _losses_to(system: str, outcomes: Sequence[Outcome]) -> Iterator[str]:
    both = pairs(system, outcomes)
    bills = [same_requests(ours, theirs) for ours, theirs in both]
    own, other = sum(bill[0] for bill in bills), sum(bill[1] for bill in bills)
    if own > other:
        yield f"{system} is cheaper on the same requests: {other:,.0f} against {own:,.0f} tokens"
    for ours, theirs in both:
        if ours.recall < theirs.recall - SAME_RECALL:
            yield (
                f"{system} remembers more in {ours.session}: {theirs.recall:.0%} against "
                f"{ours.recall:.0%}"
            )
