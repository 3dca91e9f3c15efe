"""FAULTS D8, D9 over a real redis-server: stopped, frozen, full, flushed, or not Redis at all."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.store.base import Store, StoreUnavailable
from chat_proxy.store.factory import FailOpenStore, store_of
from chat_proxy.store.outage import StoreUnreachable
from chat_proxy.store.redis.servers import CONNECTIONS, RedisUrl, servers_of
from chat_proxy.store.redis.store import WAIT_SECONDS, RedisStore
from tests.support.clock import Stopwatch, own_time
from tests.support.live import eventually
from tests.support.redis_server import RedisServer, answering, running_redis

pytestmark = pytest.mark.anyio
DAY = 86_400.0
PAUSE_SECONDS = 0.3
# Four times the usual one: a server that is well may take its time on a busy machine.
BOUND_SECONDS = 4 * WAIT_SECONDS
FIRST_PENALTY_SECONDS = BOUND_SECONDS + 0.05
NOTHING_SECONDS = 0.1
TRIES = 2


class Notices:
    """What a store complained about."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def __call__(self, operation: str, reason: str) -> None:
        self.heard.append((operation, reason))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that the test may harm."""
    with running_redis(tmp_path) as server:
        yield server


def redis_store(url: str, notices: Notices | None = None, **options: Any) -> RedisStore:
    options = {"pause_seconds": PAUSE_SECONDS, "wait_seconds": BOUND_SECONDS, **options}
    servers = servers_of(RedisUrl.read(url))
    return RedisStore(servers, b"secret", notice=notices or Notices(), **options)


@asynccontextmanager
async def opened(
    url: str, notices: Notices | None = None, **options: Any
) -> AsyncIterator[RedisStore]:
    store = redis_store(url, notices, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def seconds_of(store: RedisStore) -> float:
    """How long a lookup takes that finds nothing."""
    start = own_time()
    assert await store.get_many("kind", [b"a"]) == {}
    return own_time() - start


async def recovered(store: Store) -> None:
    """Wait until the store keeps values again; nobody tells it to."""
    is_kept = False
    async with asyncio.timeout(60):
        while not is_kept:
            await asyncio.sleep(0.01)
            is_kept = await store.put("kind", b"a", b"1", DAY)


def name_of(kind: str, key: bytes) -> str:
    return f"chat-proxy:{kind}:{key.hex()}"


async def test_a_key_expires_by_redis_s_own_clock(shared_redis: RedisServer) -> None:
    async with opened(shared_redis.url) as store:
        await store.put("kind", b"expiring", b"1", 10)

    left = shared_redis.ask("PTTL", name_of("kind", b"expiring"))
    assert 9_000 < left <= 10_000


async def test_no_life_at_all_is_no_error(shared_redis: RedisServer) -> None:
    async with opened(shared_redis.url) as store:
        assert await store.put("kind", b"short", b"1", 0)


async def test_a_value_whose_expiry_was_taken_away_is_gone_in_the_end(
    shared_redis: RedisServer,
) -> None:
    """FAULTS D13: not before a wrong clock has been ruled out."""
    now = time.time()
    async with opened(shared_redis.url, clock=lambda: now) as store:
        await store.put("kind", b"kept", b"1", 10)
        shared_redis.ask("PERSIST", name_of("kind", b"kept"))
        now += DAY
        after_a_day = await store.get_many("kind", [b"kept"])
        now += DAY

        assert after_a_day == {b"kept": b"1"}
        assert await store.get_many("kind", [b"kept"]) == {}


@pytest.mark.parametrize("foreign", [b"", b"1", b"x" * 40, b"x" * 1_000])
async def test_foreign_bytes_are_a_miss(shared_redis: RedisServer, foreign: bytes) -> None:
    """FAULTS D9."""
    notices = Notices()
    async with opened(shared_redis.url, notices) as store:
        shared_redis.ask("SET", name_of("kind", b"a"), foreign)

        assert await store.get_many("kind", [b"a"]) == {}
    assert notices.heard == [("get", "integrity")]


async def test_another_key_s_or_kind_s_value_is_a_miss(shared_redis: RedisServer) -> None:
    """FAULTS D9."""
    notices = Notices()
    async with opened(shared_redis.url, notices) as store:
        await store.put("kind", b"theirs", b"1", DAY)
        shared_redis.ask("COPY", name_of("kind", b"theirs"), name_of("kind", b"moved"))
        shared_redis.ask("COPY", name_of("kind", b"theirs"), name_of("other", b"theirs"))

        assert await store.get_many("kind", [b"moved"]) == {}
        assert await store.get_many("other", [b"theirs"]) == {}
    assert notices.heard == [("get", "integrity")] * 2


async def test_a_truncated_or_altered_value_is_a_miss(shared_redis: RedisServer) -> None:
    """FAULTS D9."""
    notices = Notices()
    async with opened(shared_redis.url, notices) as store:
        for key in (b"cut", b"altered", b"whole"):
            await store.put("kind", key, b"12345", DAY)
        whole = shared_redis.ask("GET", name_of("kind", b"cut"))
        shared_redis.ask("SET", name_of("kind", b"cut"), whole[:-1])
        shared_redis.ask("SETRANGE", name_of("kind", b"altered"), 41, b"x")

        found = await store.get_many("kind", [b"cut", b"altered", b"whole"])

    assert found == {b"whole": b"12345"}
    assert notices.heard == [("get", "integrity")] * 2


async def test_another_deployment_s_value_is_a_miss(shared_redis: RedisServer) -> None:
    """FAULTS D9."""
    async with opened(shared_redis.url) as ours:
        other = RedisStore(servers_of(RedisUrl.read(shared_redis.url)), b"another secret")
        await other.open()
        await other.put("kind", b"a", b"1", DAY)
        await other.close()

        assert await ours.get_many("kind", [b"a"]) == {}


async def test_a_value_of_the_wrong_type_is_a_miss_and_is_written_over(
    shared_redis: RedisServer,
) -> None:
    """FAULTS D8."""
    async with opened(shared_redis.url) as store:
        shared_redis.ask("DEL", name_of("kind", b"a"))
        shared_redis.ask("LPUSH", name_of("kind", b"a"), "x")

        missed = await store.get_many("kind", [b"a"])
        kept = await store.put("kind", b"a", b"1", DAY)

        assert missed == {}
        assert kept
        assert await store.get_many("kind", [b"a"]) == {b"a": b"1"}


async def test_a_stopped_server_costs_once_and_comes_back_by_itself(server: RedisServer) -> None:
    """FAULTS D8."""
    notices = Notices()
    first, rest = [], []
    async with opened(server.url, notices) as store:
        for _ in range(TRIES):
            server.stop()
            first.append(await seconds_of(store))
            rest += [await seconds_of(store) for _ in range(50)]
            server.start()
            await recovered(store)

        assert await store.get_many("kind", [b"a"]) == {b"a": b"1"}
    assert max(first) < FIRST_PENALTY_SECONDS
    assert max(rest) < NOTHING_SECONDS
    assert notices.heard == [("get", "unavailable")] * TRIES


async def test_a_frozen_server_costs_the_bound_once_and_comes_back_by_itself(
    server: RedisServer,
) -> None:
    """FAULTS D8: for longer than the pause, so that questions in between cost nobody anything."""
    notices = Notices()
    first, rest = [], []
    async with opened(server.url, notices) as store:
        for _ in range(TRIES):
            server.freeze()
            watch = Stopwatch()
            first.append(await seconds_of(store))
            assert watch.wall() >= BOUND_SECONDS
            for _ in range(40):
                rest.append(await seconds_of(store))
                await asyncio.sleep(PAUSE_SECONDS / 20)
            server.thaw()
            await recovered(store)

        assert await store.get_many("kind", [b"a"]) == {b"a": b"1"}
    assert max(first) < FIRST_PENALTY_SECONDS
    assert max(rest) < NOTHING_SECONDS
    assert notices.heard == [("get", "slow")] * TRIES


async def test_a_crowd_before_a_frozen_server_waits_together(server: RedisServer) -> None:
    """FAULTS D8: those for whom there is no connection wait no longer than the others."""
    async with opened(server.url) as store:
        server.freeze()

        start = own_time()
        seconds = await asyncio.gather(*(seconds_of(store) for _ in range(5 * CONNECTIONS)))
        total = own_time() - start
        server.thaw()
        await recovered(store)

        assert max(seconds) < 1.5 * FIRST_PENALTY_SECONDS
        assert total < 1.5 * FIRST_PENALTY_SECONDS


async def test_a_write_to_a_frozen_server_is_not_waited_for_for_ever(server: RedisServer) -> None:
    """FAULTS D7, D8: neither by its request, which is cancelled, nor behind the scenes."""
    async with opened(server.url) as store:
        server.freeze()
        writing = asyncio.create_task(store.put("kind", b"a", b"1", DAY))
        await asyncio.sleep(0.01)
        writing.cancel()
        await asyncio.wait({writing})
        under_way = len(store._tasks)

        assert under_way == 1
        assert await eventually(lambda: not store._tasks) < FIRST_PENALTY_SECONDS
        server.thaw()


async def test_a_frozen_server_does_not_hold_up_the_end(server: RedisServer) -> None:
    async with opened(server.url) as store:
        server.freeze()
        writing = asyncio.create_task(store.put("kind", b"a", b"1", DAY))
        await asyncio.sleep(0.01)
        start = own_time()

        await store.close()

        assert own_time() - start < 1
        assert not await writing
        assert not store._outage.is_on
    server.thaw()


async def test_a_full_server_refuses_writes_and_goes_on_reading(tmp_path: Path) -> None:
    """FAULTS D8: it answers at once, so it is not left alone."""
    notices = Notices()
    with running_redis(tmp_path, "--maxmemory", "3mb", "--maxmemory-policy", "noeviction") as full:
        async with opened(full.url, notices) as store:
            await store.put("kind", b"a", b"1", DAY)
            kept = [await store.put("kind", b"%d" % n, bytes(200_000), DAY) for n in range(30)]

            found = await store.get_many("kind", [b"a"])
            full.ask("CONFIG", "SET", "maxmemory", "100mb")

            assert not all(kept)
            assert found == {b"a": b"1"}
            assert await store.put("kind", b"b", b"2", DAY)
    assert set(notices.heard) == {("put", "full")}


async def test_a_flushed_server_has_forgotten_and_nothing_else(server: RedisServer) -> None:
    notices = Notices()
    async with opened(server.url, notices) as store:
        await store.put("kind", b"a", b"1", DAY)
        server.ask("FLUSHALL")

        missed = await store.get_many("kind", [b"a"])

        assert missed == {}
        assert await store.put("kind", b"a", b"2", DAY)
        assert await store.get_many("kind", [b"a"]) == {b"a": b"2"}
    assert notices.heard == []


async def test_a_server_that_was_started_again_is_not_even_noticed(server: RedisServer) -> None:
    """The connections of before are dead, which is seen before they are used."""
    notices = Notices()
    async with opened(server.url, notices) as store:
        await store.put("kind", b"a", b"1", DAY)
        server.stop()
        server.start()
        await asyncio.sleep(0.05)

        assert await store.get_many("kind", [b"a"]) == {}
        assert await store.put("kind", b"a", b"1", DAY)
    assert notices.heard == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"-LOADING Redis is loading the dataset in memory\r\n", "loading"),
        (b"-NOAUTH Authentication required.\r\n", "denied"),
        (b"-CLUSTERDOWN The cluster is down\r\n", "unavailable"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "error"),
        (b":what\r\n", "error"),
    ],
)
async def test_a_server_that_cannot_serve_is_left_alone(answer: bytes, reason: str) -> None:
    """FAULTS D8."""
    notices = Notices()
    async with answering(answer) as port:
        store = redis_store(f"redis://127.0.0.1:{port}", notices)
        with pytest.raises(StoreUnreachable, match=reason):
            await store.open()

        seconds = await seconds_of(store)
        await store.close()

    assert seconds < NOTHING_SECONDS
    assert notices.heard == [("open", reason)]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"-MOVED 866 127.0.0.1:7001\r\n", "moved"),
        (b"-READONLY You can't write against a read only replica.\r\n", "read_only"),
        (b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", "full"),
        (b"-NOPERM this user has no permissions\r\n", "denied"),
        (b"-MISCONF Redis is configured to save RDB snapshots\r\n", "error"),
    ],
)
async def test_a_server_that_refuses_one_thing_is_asked_for_others(
    answer: bytes, reason: str
) -> None:
    """FAULTS D8."""
    notices = Notices()
    async with answering(answer) as port, opened(f"redis://127.0.0.1:{port}", notices) as store:
        kept = [await store.put("kind", b"a", b"1", DAY) for _ in range(2)]

    assert kept == [False, False]
    assert notices.heard == [("put", reason)] * 2


async def test_a_closed_store_misses(shared_redis: RedisServer) -> None:
    async with opened(shared_redis.url) as store:
        await store.put("kind", b"a", b"1", DAY)

    assert await store.get_many("kind", [b"a"]) == {}
    assert not await store.put("kind", b"a", b"1", DAY)


async def test_an_outage_is_longer_when_nothing_was_done_since_the_last(
    server: RedisServer,
) -> None:
    """A server that answers a ping and nothing else is not tried all the time."""
    async with opened(server.url, pause_seconds=0.05) as store:
        for pause in (0.05, 0.1, 0.2):
            server.freeze()
            watch = Stopwatch()
            await seconds_of(store)
            server.thaw()
            await eventually(lambda: not store._outage.is_on)
            assert watch.wall() >= BOUND_SECONDS + pause
            assert watch.own() < BOUND_SECONDS + 2 * pause + 0.3

        assert await store.put("kind", b"a", b"1", DAY)
        assert store._outage._pause_seconds == 0.05


async def test_a_server_that_is_away_at_the_start_is_waited_for(server: RedisServer) -> None:
    """Unlike a file that cannot be had, it is shared: memory would not be a replacement."""
    server.stop()
    notices = Notices()
    store = FailOpenStore(redis_store(server.url, notices), required=False, notice=notices)

    await store.open()
    away = await store.put("kind", b"a", b"1", DAY)
    server.start()
    await recovered(store)

    assert not away
    assert not store.is_degraded
    assert server.ask("EXISTS", name_of("kind", b"a"))
    assert notices.heard == [("open", "unavailable")]
    await store.close()


async def test_a_server_that_is_frozen_at_the_start_delays_it_by_seconds(
    server: RedisServer,
) -> None:
    server.freeze()
    store = redis_store(server.url)
    start = own_time()

    with pytest.raises(StoreUnreachable, match="slow"):
        await store.open()

    assert own_time() - start < 4
    server.thaw()
    await recovered(store)
    await store.close()


async def test_a_required_server_that_is_away_stops_the_start(server: RedisServer) -> None:
    server.stop()
    store = FailOpenStore(redis_store(server.url), required=True, notice=Notices())

    with pytest.raises(StoreUnreachable, match="unavailable"):
        await store.open()


async def test_the_setting_s_url_leads_to_the_server(shared_redis: RedisServer) -> None:
    first, second = (store_of(shared_redis.url, "secret", Notices()) for _ in range(2))
    await first.open()
    await second.open()

    await first.put("kind", b"shared", b"1", DAY)

    assert await second.get_many("kind", [b"shared"]) == {b"shared": b"1"}
    await first.close()
    await second.close()


def test_replicas_must_share_a_secret() -> None:
    with pytest.raises(StoreUnavailable, match="CHAT_PROXY_STORE_SECRET"):
        store_of("redis://:canary@host", None, Notices())


def test_without_the_extra_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("store", "faults", "servers"):
        monkeypatch.delitem(sys.modules, f"chat_proxy.store.redis.{name}")
        monkeypatch.delattr(f"chat_proxy.store.redis.{name}")
    monkeypatch.setitem(sys.modules, "redis", None)

    with pytest.raises(StoreUnavailable, match=r"chat-proxy\[redis\]"):
        store_of("redis://host", "secret", Notices())
