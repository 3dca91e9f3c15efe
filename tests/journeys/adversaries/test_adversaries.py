"""Clients, upstream, summary model, store and clock do their worst in any order.

`pytest tests/adversaries --hypothesis-profile=thorough` looks longer.
"""

import asyncio
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.journeys.adversaries.checks import Asked, check
from tests.journeys.adversaries.talks import TENANTS, Talk
from tests.journeys.adversaries.upstream import MOODS, SUMMARY_MOODS
from tests.journeys.adversaries.world import World, body_of
from tests.support.live import RawClient, chat_request

pytestmark = [
    pytest.mark.timeout(3_600),  # the thorough profile takes its time
    # Each example closes its loop with clients still connected: that is the point of it.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TENANT = st.sampled_from(TENANTS)
SIZE = st.sampled_from([300, 60, 500, 1])
STREAMS = st.booleans()
MOOD = st.one_of(st.just("healthy"), st.sampled_from(sorted(MOODS)))
SUMMARY_MOOD = st.one_of(st.just("good"), st.sampled_from(sorted(SUMMARY_MOODS)))
PAUSES = st.sampled_from([2.0, 90.0, 4_000.0, 100_000.0, -4_000.0])
AN_AGE_SECONDS = 10_000_000.0
"""After this any breaker lets a request try again, however often the clock went back."""
LEAVING = ("upload", "at once", "soon")


class Adversaries(RuleBasedStateMachine):
    """Every step is somebody's move; what must hold is checked within it."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = count()
        self.talks = {tenant: Talk() for tenant in TENANTS}
        self.lines: dict[str, RawClient] = {}

    @initialize(
        on_disk=st.booleans(),
        wait=st.sampled_from(["trigger", "overflow"]),
        prepare=st.sampled_from([1.0, 0.65]),
        turns=st.integers(0, 4),
    )
    def begin(self, on_disk: bool, wait: str, prepare: float, turns: int) -> None:
        """Begin with conversations that are near the trigger, or not."""
        self.world = World(on_disk=on_disk, wait=wait, prepare=prepare)
        for talk in self.talks.values():
            for _ in range(turns):
                talk.ask(400)

    # Clients

    @rule(tenant=TENANT, size=SIZE, streams=STREAMS, mood=MOOD, summary_mood=SUMMARY_MOOD)
    def ask(self, tenant: str, size: int, streams: bool, mood: str, summary_mood: str) -> None:
        self.be_in(mood, summary_mood)
        self.talks[tenant].ask(size)
        self.send(tenant, streams=streams)

    @rule(tenant=TENANT, size=SIZE, parallel=st.integers(1, 3), streams=STREAMS, mood=MOOD)
    def work(self, tenant: str, size: int, parallel: int, streams: bool, mood: str) -> None:
        self.be_in(mood)
        self.talks[tenant].work(size, parallel)
        self.send(tenant, streams=streams)

    @rule(tenant=TENANT, mood=MOOD)
    def edit(self, tenant: str, mood: str) -> None:
        self.be_in(mood)
        self.talks[tenant].edit()
        self.send(tenant)

    @rule(tenant=TENANT, back=st.integers(1, 3), summary_mood=SUMMARY_MOOD)
    def branch(self, tenant: str, back: int, summary_mood: str) -> None:
        self.be_in("healthy", summary_mood)
        self.talks[tenant].branch(back)
        self.send(tenant)

    @rule(tenant=TENANT, streams=STREAMS, mood=MOOD, mode=st.sampled_from(["off", "observe"]))
    def ask_untouched(self, tenant: str, streams: bool, mood: str, mode: str) -> None:
        self.be_in(mood)
        self.send(tenant, f"x-chat-proxy-mode: {mode}", streams=streams)

    @rule(one=TENANT, other=TENANT)
    def imitate(self, one: str, other: str) -> None:
        """Send what another tenant would send, byte for byte."""
        self.be_in("healthy")
        self.talks[one].messages = self.talks[other].messages
        self.send(one)

    @rule(streams=STREAMS, mood=MOOD, summary_mood=SUMMARY_MOOD)
    def ask_all_at_once(self, streams: bool, mood: str, summary_mood: str) -> None:
        async def all_ask() -> None:
            await asyncio.gather(*(self.exchange(it, (), streams=streams) for it in TENANTS))

        self.be_in(mood, summary_mood)
        self.world.run(all_ask())

    @rule(tenant=TENANT, how=st.sampled_from(LEAVING), streams=STREAMS, size=SIZE)
    def leave_early(self, tenant: str, how: str, streams: bool, size: int) -> None:
        self.talks[tenant].ask(size)
        self.world.run(self.abort(tenant, how, streams=streams))

    # The others

    @rule(tenant=TENANT, streams=STREAMS)
    def upstream_leaves(self, tenant: str, streams: bool) -> None:
        """The upstream is away for one request."""
        self.world.upstream.leave()
        self.send(tenant, streams=streams)

    @rule()
    def store_is_locked_or_free_again(self) -> None:
        self.world.lock_or_free_store()

    @rule()
    def rows_are_spoilt(self) -> None:
        self.world.spoil_rows()
        self.world.forget()

    @rule()
    def rows_are_exchanged(self) -> None:
        self.world.exchange_rows()
        self.world.forget()

    @rule()
    def memory_is_lost(self) -> None:
        self.world.forget()

    @rule(seconds=PAUSES)
    def time_passes(self, seconds: float) -> None:
        self.world.skew_seconds += seconds

    # How it is done

    def be_in(self, mood: str, summary_mood: str | None = None) -> None:
        """Put the upstream in a mood, and perhaps the summary model; it may have been away."""
        self.world.run(self.world.upstream.listen())
        self.world.upstream.mood = mood
        self.world.upstream.summary_mood = summary_mood or self.world.upstream.summary_mood

    def send(self, tenant: str, *headers: str, streams: bool = False) -> None:
        self.world.run(self.exchange(tenant, headers, streams=streams))

    async def exchange(self, tenant: str, headers: tuple[str, ...], *, streams: bool) -> None:
        """Send a tenant's whole conversation, and check what comes of it."""
        messages = self.talks[tenant].messages
        asked = Asked(f"r{next(self.numbers)}", tenant, body_of(messages, stream=streams), messages)
        line = await self.line_of(tenant)
        await line.send(self.request(asked, headers))
        answer = await line.answer()
        if answer.headers.get("connection") == "close":
            del self.lines[tenant]
        tapes = self.world.upstream.tapes
        check(asked, answer, [tape for tape in tapes if tape.request_id == asked.request_id])

    async def abort(self, tenant: str, how: str, *, streams: bool) -> None:
        """Begin a request, and go away."""
        messages = self.talks[tenant].messages
        asked = Asked(f"r{next(self.numbers)}", tenant, body_of(messages, stream=streams), messages)
        request = self.request(asked, ())
        line = await self.line_of(tenant)
        await line.send(request[:-20] if how == "upload" else request)
        if how == "soon":
            await asyncio.sleep(0.003)
        self.lines.pop(tenant).leave()
        assert await self.world.is_at_rest()

    def request(self, asked: Asked, headers: tuple[str, ...]) -> bytes:
        named = f"x-request-id: {asked.request_id}"
        return chat_request(asked.body, f"authorization: Bearer {asked.tenant}", named, *headers)

    async def line_of(self, tenant: str) -> RawClient:
        if tenant not in self.lines:
            self.lines[tenant] = await self.world.connect()
        return self.lines[tenant]

    def teardown(self) -> None:
        """When all behave again, so does the proxy, and nothing is left of what was."""
        if not hasattr(self, "world"):
            return
        try:
            self.world.free_store()
            self.be_in("healthy", "good")
            self.world.run(self.serve_again())
        finally:
            self.world.close()

    async def serve_again(self) -> None:
        self.world.skew_seconds += AN_AGE_SECONDS
        for tenant in TENANTS:
            await self.exchange(tenant, ("x-chat-proxy-mode: off",), streams=True)
            answered = self.world.upstream.tapes[-1]
            assert answered.tenant == tenant
            assert answered.is_whole
        assert await self.world.is_at_rest()


TestAdversaries = Adversaries.TestCase
TestAdversaries.settings = settings(
    stateful_step_count=30,
    # A failure is told in seconds; to make its moves fewer takes minutes.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
