"""A client's requests sent through the proxy, one after the other, and what that came to."""

from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import orjson

from bench.clients.catalogue import Behaviour
from bench.clients.histories import Client, Messages
from bench.clients.proxy import Proxy, started
from bench.clients.summariser import summarise
from bench.conversation.model import ScriptedModel, running
from bench.conversation.prompt import Json, Prompt, count, rendered
from bench.conversation.replay import client_session, post, price


@dataclass
class Outcome:
    """What became of a client's requests."""

    name: str
    turns: list[int] = field(default_factory=list)
    """How many answers the true history of each request has."""
    bills: list[float] = field(default_factory=list)
    """What each request was billed, with the side-queries that it caused."""
    side_queries: int = 0
    unanswered: int = 0
    unstable: int = 0
    """Requests of a client that only appended whose prompt changed without becoming shorter."""
    refused: int = 0
    """Requests and side-queries that were longer than the window."""
    broken_pairs: int = 0
    prompts: list[Json] = field(default_factory=list)
    """What the model was sent for each request."""

    @property
    def requests(self) -> int:
        """How many requests were sent."""
        return len(self.bills)

    @property
    def side_queries_per_request(self) -> float:
        """Side-queries for each request, on the average."""
        return self.side_queries / max(1, self.requests)

    @property
    def billed(self) -> float:
        """All that was billed."""
        return sum(self.bills)


async def replay(behaviour: Behaviour, client: Client, folder: Path) -> Outcome:
    """Send a client's requests through a proxy of its own."""
    outcome = Outcome(behaviour.name)
    sends = behaviour.sends(client)
    outcome.turns = [_answers_in(true) for true in behaviour.course(client)]
    async with (
        running(ScriptedModel(client.window, summarise)) as model,
        started(model, folder) as proxy,
        client_session() as session,
    ):
        for messages in sends:
            await _send(client.request(messages), proxy, session, outcome)
    outcome.side_queries = sum(call.is_side_query for call in model.calls)
    outcome.broken_pairs = sum(call.broken_pairs for call in model.calls)
    outcome.refused = model.refused
    outcome.unstable = unstable(sends, outcome.prompts)
    return outcome


async def _send(body: Json, proxy: Proxy, session: aiohttp.ClientSession, outcome: Outcome) -> None:
    model = proxy.model
    before = price(model.calls)
    answered = await post(session, proxy.url, orjson.dumps(body))
    await proxy.idle()
    outcome.unanswered += not answered
    outcome.bills.append(price(model.calls) - before)
    outcome.prompts.append(model.last.fields if model.last else body)


def unstable(sends: list[Messages], prompts: list[Json]) -> int:
    """Count the prompts that changed though the client only appended and nothing was compacted.

    A prompt must begin with that of the longest earlier request whose messages this one begins
    with. Where it does not, it must be shorter than that prompt and the new messages together:
    something was compacted.
    """
    found = 0
    for at, (messages, prompt) in enumerate(zip(sends, prompts, strict=True)):
        earlier = [it for it in range(at) if messages[: len(sends[it])] == sends[it]]
        if not earlier:
            continue
        last = max(earlier, key=lambda it: (len(sends[it]), it))
        new = messages[len(sends[last]) :]
        begins = prompt["messages"][: len(prompts[last]["messages"])] == prompts[last]["messages"]
        found += not begins and _tokens(prompt) >= _tokens(prompts[last]) + _size(new)
    return found


def _tokens(prompt: Json) -> int:
    return len(Prompt(prompt).tokens)


def _size(messages: Messages) -> int:
    return sum(count(rendered(message)) for message in messages)


def _answers_in(messages: Messages) -> int:
    return sum(message["role"] == "assistant" for message in messages)
