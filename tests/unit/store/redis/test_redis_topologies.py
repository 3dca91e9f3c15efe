"""Redis over TLS, with a password, behind Sentinels, and as a cluster."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trustme

from chat_proxy.store.base import StoreUnavailable
from chat_proxy.store.outage import StoreUnreachable
from chat_proxy.store.redis.servers import RedisUrl, servers_of
from chat_proxy.store.redis.store import RedisStore
from tests.support.clock import Stopwatch
from tests.support.redis_server import (
    RedisServer,
    SentinelServer,
    free_port,
    running_cluster,
    running_redis,
    stopping,
    until,
)

pytestmark = pytest.mark.anyio
DAY = 86_400.0
KEYS = [b"%d" % number for number in range(60)]


@asynccontextmanager
async def opened(
    url: str, heard: list[tuple[str, str]] | None = None, wait_seconds: float = 1
) -> AsyncIterator[RedisStore]:
    complaints = [] if heard is None else heard
    store = RedisStore(
        servers_of(RedisUrl.read(url)),
        secrets.token_bytes(32),
        notice=lambda *said: complaints.append(said),
        pause_seconds=0.2,
        # What is shown here is where commands go, on a machine that may be busy.
        wait_seconds=wait_seconds,
    )
    try:
        await store.open()
        yield store
    finally:
        await store.close()


async def kept_all(store: RedisStore, value: bytes = b"1") -> bool:
    return all([await store.put("kind", key, value, DAY) for key in KEYS])


async def eventually_kept_all(store: RedisStore, seconds: float) -> None:
    is_kept = False
    async with asyncio.timeout(seconds):
        while not is_kept:
            await asyncio.sleep(0.05)
            is_kept = await kept_all(store)


@pytest.fixture
def certificates(tmp_path: Path) -> dict[str, str]:
    """An authority, and a certificate that it gave out for the loopback and for clients."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    files = {name: str(tmp_path / f"{name}.pem") for name in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(files["ca"])
    issued.cert_chain_pems[0].write_to_path(files["cert"])
    issued.private_key_pem.write_to_path(files["key"])
    return files


@contextmanager
def tls_redis(path: Path, files: dict[str, str], clients: str) -> Iterator[tuple[str, RedisServer]]:
    """A Redis that listens for TLS on another port, and that port's URL."""
    port = free_port()
    options = ["--tls-ca-cert-file", files["ca"], "--tls-cert-file", files["cert"]]
    options += ["--tls-key-file", files["key"], "--tls-auth-clients", clients]
    with running_redis(path, *options, "--tls-port", str(port)) as server:
        yield f"rediss://127.0.0.1:{port}", server


async def test_rediss_speaks_tls(tmp_path: Path, certificates: dict[str, str]) -> None:
    with tls_redis(tmp_path, certificates, "no") as (url, _):
        async with opened(f"{url}?ca={certificates['ca']}") as store:
            assert await kept_all(store)


async def test_a_client_shows_its_certificate(tmp_path: Path, certificates: dict[str, str]) -> None:
    shown = "&".join(f"{name}={path}" for name, path in certificates.items())
    with tls_redis(tmp_path, certificates, "yes") as (url, _):
        async with opened(f"{url}?{shown}") as store:
            assert await kept_all(store)


async def test_a_server_that_nobody_vouches_for_is_refused(
    tmp_path: Path, certificates: dict[str, str]
) -> None:
    with tls_redis(tmp_path, certificates, "no") as (url, _), pytest.raises(StoreUnreachable):
        async with opened(url):
            pass


async def test_a_frozen_server_over_tls_costs_the_bound_once(
    tmp_path: Path, certificates: dict[str, str]
) -> None:
    """FAULTS D8: an end of TLS that nobody answers is not waited for either."""
    with tls_redis(tmp_path, certificates, "no") as (url, server):
        async with opened(f"{url}?ca={certificates['ca']}") as store:
            server.freeze()
            watch = Stopwatch()

            first = await store.put("kind", b"a", b"1", DAY)
            second = await store.put("kind", b"a", b"1", DAY)

            assert (first, second) == (False, False)
            assert watch.wall() > 0.9
            assert watch.own() < 1.5
            server.thaw()
            await eventually_kept_all(store, 60)


async def test_the_url_s_user_and_password_log_in(tmp_path: Path) -> None:
    with running_redis(tmp_path) as server:
        server.ask("ACL", "SETUSER", "proxy", "on", ">p@ss/word", "~chat-proxy:*", "+@all")
        server.ask("CONFIG", "SET", "requirepass", "another")
        async with opened(f"redis://proxy:p%40ss%2Fword@127.0.0.1:{server.port}") as store:
            assert await kept_all(store)


async def test_a_wrong_password_is_named_and_not_shown(tmp_path: Path) -> None:
    heard: list[tuple[str, str]] = []
    with running_redis(tmp_path) as server:
        server.ask("CONFIG", "SET", "requirepass", "right")
        with pytest.raises(StoreUnreachable, match="denied") as refusal:
            async with opened(f"redis://:canary@127.0.0.1:{server.port}", heard):
                pass

    assert heard == [("open", "denied")]
    assert "canary" not in str(refusal.value)


async def test_the_url_s_database_is_used(shared_redis: RedisServer) -> None:
    shared_redis.ask("FLUSHDB")
    async with opened(f"redis://127.0.0.1:{shared_redis.port}/3") as store:
        await store.put("kind", b"a", b"1", DAY)

    assert shared_redis.ask("DBSIZE") == 0


async def test_sentinels_name_the_master_before_and_after_it_fails(tmp_path: Path) -> None:
    with running_redis(tmp_path) as master:
        follower = RedisServer(tmp_path, "--replicaof", "127.0.0.1", str(master.port))
        sentinel = SentinelServer(tmp_path, master)
        with stopping(follower), stopping(sentinel):
            until(lambda: master.ask("INFO", "replication")["connected_slaves"] == 1)
            until(lambda: len(sentinel.ask("SENTINEL REPLICAS", sentinel.service)) == 1)
            # Nobody listens on the first one's port.
            hosts = f"127.0.0.1:1,127.0.0.1:{sentinel.port}"
            async with opened(f"redis+sentinel://{hosts}/{sentinel.service}/0") as store:
                before = await kept_all(store)
                master.stop()

                await eventually_kept_all(store, 60)

                assert before
                assert follower.ask("EXISTS", f"chat-proxy:kind:{KEYS[0].hex()}")


async def test_a_cluster_keeps_its_keys_on_all_masters(shared_cluster: list[RedisServer]) -> None:
    heard: list[tuple[str, str]] = []
    async with opened(f"redis+cluster://127.0.0.1:{shared_cluster[0].port}", heard) as store:
        kept = await kept_all(store)
        found = await store.get_many("kind", KEYS)

    assert kept
    assert found == dict.fromkeys(KEYS, b"1")
    assert all(server.ask("DBSIZE") for server in shared_cluster)
    assert heard == []


async def test_a_cluster_is_found_by_any_of_its_hosts(shared_cluster: list[RedisServer]) -> None:
    async with opened(f"redis+cluster://127.0.0.1:1,127.0.0.1:{shared_cluster[2].port}") as store:
        assert await kept_all(store)


async def test_a_cluster_s_leases_are_held_by_one(shared_cluster: list[RedisServer]) -> None:
    async with opened(f"redis+cluster://127.0.0.1:{shared_cluster[0].port}") as store:
        for number in range(10):
            key = secrets.token_bytes(8)
            lease = await store.lease(key, 10)
            assert lease is not None, number
            assert await store.lease(key, 10) is None
            assert await lease.renew()
            await lease.release()
            assert await store.lease(key, 10) is not None


@pytest.mark.timeout(600)
async def test_slots_that_move_are_followed(tmp_path: Path) -> None:
    """FAULTS D8: MOVED is where to ask, not a fault."""
    heard: list[tuple[str, str]] = []
    with running_cluster(tmp_path) as servers:
        async with opened(f"redis+cluster://127.0.0.1:{servers[0].port}", heard, 5) as store:
            await kept_all(store)
            give_away_slots(servers[0], servers[1])

            found = await store.get_many("kind", KEYS)
            kept = await kept_all(store, b"2")

            assert set(found.values()) == {b"1"}
            assert kept
            assert await store.get_many("kind", KEYS) == dict.fromkeys(KEYS, b"2")
    assert heard == []


@pytest.mark.timeout(600)
async def test_a_cluster_that_lost_a_master_is_left_alone_until_it_is_whole(tmp_path: Path) -> None:
    """FAULTS D8."""
    heard: list[tuple[str, str]] = []
    with running_cluster(tmp_path) as servers:
        async with opened(f"redis+cluster://127.0.0.1:{servers[0].port}", heard) as store:
            await kept_all(store)
            servers[1].freeze()
            watch = Stopwatch()

            found = await store.get_many("kind", KEYS)
            first = watch.own()
            again = await store.get_many("kind", KEYS)
            second = watch.own() - first
            servers[1].thaw()
            await eventually_kept_all(store, 60)

            assert (found, again) == ({}, {})
            assert first < 1.3
            assert second < 0.1
    assert heard[0] == ("get", "slow")


@pytest.mark.timeout(600)
async def test_a_cluster_in_trouble_is_left_without_open_connections(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as servers:
        async with opened(f"redis+cluster://127.0.0.1:{servers[0].port}") as store:
            await kept_all(store)
            servers[1].stop()
            kept = await kept_all(store)

        clients = servers[0].ask("CLIENT", "LIST", "TYPE", "normal")

    assert not kept
    assert clients.count(b"\n") == 1


def give_away_slots(giver: RedisServer, taker: RedisServer) -> None:
    """Move all slots in which a master has keys, with the keys, to another one."""
    names = {server.port: server.ask("CLUSTER MYID").decode() for server in (giver, taker)}
    for key in giver.ask("KEYS", "*"):
        slot = giver.ask("CLUSTER KEYSLOT", key)
        taker.ask("CLUSTER SETSLOT", slot, "IMPORTING", names[giver.port])
        giver.ask("CLUSTER SETSLOT", slot, "MIGRATING", names[taker.port])
        giver.ask("MIGRATE", "127.0.0.1", taker.port, key, 0, 5_000)
        for server in (taker, giver):
            server.ask("CLUSTER SETSLOT", slot, "NODE", names[taker.port])
    assert giver.ask("DBSIZE") == 0


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("redis:", "must be redis://"),
        ("redis://", "must be redis://"),
        ("redis://:canary@", "must be redis://"),
        ("redis://:canary@host:port", "must be redis://"),
        ("redis://:canary@host:99999", "must be redis://"),
        ("redis://[::1", "must be redis://"),
        ("redis+what://:canary@host", "must be redis://"),
        ("redisx://:canary@host", "must begin with redis or rediss"),
        ("redis://:canary@one,two", "several hosts need"),
        ("redis://:canary@host/name", "a number"),
        ("redis://:canary@host/1/2", "a number"),
        ("redis://host?password=canary", "no option 'password'"),
        ("redis://host?ca=/etc/hostname", "no option 'ca'"),
        ("rediss://host?ca=/nowhere/ca.pem", "there is no file /nowhere/ca.pem"),
        ("redis+cluster://:canary@host/1", "has only database 0"),
        ("redis+cluster://host?sentinel_password=canary", "no option 'sentinel_password'"),
        ("redis+sentinel://:canary@host", "must name the service"),
        ("redis+sentinel://:canary@host/service/name", "a number"),
    ],
)
def test_a_url_that_names_no_servers_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(StoreUnavailable, match=complaint) as refusal:
        servers_of(RedisUrl.read(url))

    assert "canary" not in str(refusal.value)


def test_a_url_says_who_is_asked_and_shows_no_password() -> None:
    url = RedisUrl.read("redis+sentinel://me:canary@a,[::1]:7/s/2?sentinel_password=canary")

    assert url.addresses == [("a", 26379), ("::1", 7)]
    assert url.path == ["s", "2"]
    assert url.login == {"username": "me", "password": "canary"}
    assert url.sentinel_password == "canary"
    assert "canary" not in repr(url)
