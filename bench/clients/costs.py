"""What a client costs beside one that only appends, and what of that nobody could avoid."""

from collections.abc import Iterable
from dataclasses import dataclass

from bench.clients.catalogue import Behaviour, unchanged
from bench.clients.histories import Client
from bench.clients.replay import Outcome
from bench.conversation.cache import PrefixCache
from bench.conversation.model import Call
from bench.conversation.prompt import Json, Prompt
from bench.conversation.replay import price


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one behaviour; costs are shares of an append-only client's."""

    name: str
    requests: int
    side_queries: float
    """For each request."""
    cost: float
    unavoidable: float | None
    """What the append-only client's prompts would cost with the same change in them."""
    no_proxy: float
    """The same client without a proxy, in a window without end."""
    unanswered: int
    unstable: int
    """Prompts that changed though the client only appended and nothing was compacted."""
    refused: int
    """Prompts and side-queries that the model refused as too long."""
    broken_pairs: int


def row(behaviour: Behaviour, client: Client, outcome: Outcome, append: Outcome) -> Row:
    """Return a behaviour's figures beside those of an append-only client of the same kind."""
    reference = _reference(outcome, append)
    alone = _billed(client.request(messages) for messages in behaviour.sends(client))
    unavoidable = None
    if behaviour.rewrite is not unchanged and behaviour.is_local:
        unavoidable = _changed(behaviour, append) / append.billed
    return Row(
        name=behaviour.name,
        requests=outcome.requests,
        side_queries=round(outcome.side_queries_per_request, 3),
        cost=round(outcome.billed / reference, 2),
        unavoidable=None if unavoidable is None else round(unavoidable, 2),
        no_proxy=round(alone / reference, 2),
        unanswered=outcome.unanswered,
        unstable=outcome.unstable,
        refused=outcome.refused,
        broken_pairs=outcome.broken_pairs,
    )


def _reference(outcome: Outcome, append: Outcome) -> float:
    """Return what the append-only client was billed at the same points of its history."""
    return sum(append.bills[min(turn, append.requests - 1)] for turn in outcome.turns)


def _changed(behaviour: Behaviour, append: Outcome) -> float:
    """Return what the append-only client is billed if its prompts have the behaviour's change.

    Its side-queries are billed as they were.
    """
    plain = _billed(append.prompts)
    changed = _billed(
        {**prompt, "messages": behaviour.rewrite(prompt["messages"], at)}
        for at, prompt in enumerate(append.prompts)
    )
    return append.billed - plain + changed


def _billed(requests: Iterable[Json]) -> float:
    cache = PrefixCache()
    calls = []
    for request in requests:
        tokens = Prompt(request).tokens
        calls.append(Call(len(tokens), cache.take(tokens), 0, False, 0))
    return price(calls)
