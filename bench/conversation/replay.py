"""A session sent through a system, request by request, and what that came to."""

from dataclasses import dataclass, field
from statistics import fmean

import aiohttp
import orjson

from bench.conversation.model import Call, ScriptedModel
from bench.conversation.needles import checkpoints, mean, recall
from bench.conversation.sessions import Session
from bench.conversation.systems import System

CACHED_PRICE = 0.1
SECONDS_PER_REQUEST = 120
HEADERS = {"content-type": "application/json", "authorization": "Bearer sk-bench"}
# A history only grows: who is refused so often in a row is refused to the end.
REFUSALS_TO_GIVE_UP = 5


@dataclass
class Outcome:
    """What one system did with one session."""

    system: str
    session: str
    kind: str
    window: int
    calls: list[Call] = field(default_factory=list)
    billed: list[float] = field(default_factory=list)
    """What was billed up to and with each request, side-queries included."""
    answered: list[bool] = field(default_factory=list)
    recalls: list[float | None] = field(default_factory=list)
    user_recalls: list[float | None] = field(default_factory=list)
    found_recalls: list[float | None] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """How many requests the session has."""
        return len(self.answered)

    @property
    def failed(self) -> int:
        """How many of them got no answer."""
        return self.answered.count(False)

    def billed_until(self, requests: int) -> float:
        """Return what the first so many requests cost."""
        return self.billed[requests - 1] if requests else 0.0

    @property
    def answered_at_first(self) -> int:
        """How many requests were answered before the first that was not."""
        return self.answered.index(False) if self.failed else self.requests

    @property
    def sent(self) -> int:
        """Tokens of the accepted requests, side-queries apart."""
        return sum(call.sent for call in self.calls if not call.is_side_query)

    @property
    def side_tokens(self) -> int:
        """Tokens that side-queries read and wrote."""
        return sum(call.sent + call.written for call in self.calls if call.is_side_query)

    @property
    def cached_share(self) -> float:
        """The share of the accepted requests' tokens that a prefix cache serves."""
        served = sum(call.cached for call in self.calls if not call.is_side_query)
        return served / max(1, self.sent)

    @property
    def total_billed(self) -> float:
        """All that is paid for: read, read again from the cache, written by side-queries."""
        return price(self.calls)

    @property
    def billed_per_answer(self) -> float:
        """What an answered request costs on the average."""
        return self.total_billed / max(1, self.requests - self.failed)

    @property
    def broken_pairs(self) -> float:
        """Tool calls and results without each other in a request, on the average."""
        own = [call.broken_pairs for call in self.calls if not call.is_side_query]
        return fmean(own) if own else 0.0

    @property
    def recall(self) -> float:
        """The mean share of what was planted that was there, over the session."""
        return mean(self.recalls)

    @property
    def last_recall(self) -> float:
        """The share of all that was planted which the last prompt had."""
        return self.recalls[-1] or 0.0


def price(calls: list[Call]) -> float:
    """Return what calls cost in tokens: from the cache a tenth, and what side-queries write."""
    return sum(
        call.sent - call.cached * (1 - CACHED_PRICE) + (call.written if call.is_side_query else 0)
        for call in calls
    )


async def replay(session: Session, system: System, model: ScriptedModel, url: str) -> Outcome:
    """Send a session's requests one after the other."""
    window = session.size.window
    outcome = Outcome(system.name, session.name, session.kind, window)
    asked = list(session.requests())
    pauses = set(checkpoints(len(asked)))
    async with client_session() as client:
        for number, request in enumerate(asked):
            answered = False
            if any(outcome.answered[-REFUSALS_TO_GIVE_UP:]) or number < REFUSALS_TO_GIVE_UP:
                body = orjson.dumps(system.trim(request, window))
                answered = await post(client, url, body)
                await model.idle()
            outcome.answered.append(answered)
            outcome.billed.append(price(model.calls))
            if number in pauses:
                _ask(outcome, session, len(request["messages"]), answered, model.last_text)
    outcome.calls = model.calls
    return outcome


def client_session() -> aiohttp.ClientSession:
    """Return a client that waits long enough for a summary."""
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS_PER_REQUEST))


def _ask(outcome: Outcome, session: Session, messages: int, answered: bool, last_text: str) -> None:
    prompt = last_text if answered else None
    by_user = [needle for needle in session.needles if needle.source == "user"]
    found = [needle for needle in session.needles if needle.source == "found"]
    outcome.recalls.append(recall(session.needles, messages, prompt))
    outcome.user_recalls.append(recall(by_user, messages, prompt))
    outcome.found_recalls.append(recall(found, messages, prompt))


async def post(
    client: aiohttp.ClientSession, url: str, body: bytes, own: dict[str, str] | None = None
) -> bool:
    """Send a chat request, and tell whether it was answered; `own` are headers of a peer."""
    return not await refusal_of(client, url, body, own)


async def refusal_of(
    client: aiohttp.ClientSession, url: str, body: bytes, own: dict[str, str] | None = None
) -> str:
    """Send a chat request; return status and code of a refusal, empty if it was answered."""
    headers = {**HEADERS, **(own or {})}
    async with client.post(f"{url}/v1/chat/completions", data=body, headers=headers) as response:
        await response.read()
        code = response.headers.get("x-chat-proxy-error", "of the upstream")
        return "" if response.status == 200 else f"{response.status} {code}"
