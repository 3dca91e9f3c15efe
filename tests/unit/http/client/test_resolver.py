"""Row B3: names, and what happens while a name server fails."""

import asyncio
import socket

import pytest
from aiohappyeyeballs import AddrInfoType

from chat_proxy.http.client.resolver import (
    FRESH_SECONDS,
    LAST_GOOD_SECONDS,
    CachingResolver,
    NameNotResolved,
    look_up,
)

pytestmark = pytest.mark.anyio

ADDRESS: AddrInfoType = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))


class NameServer:
    """Knows one address, and fails or stalls when told to."""

    def __init__(self) -> None:
        self.mood = "well"
        self.asked: list[tuple[str, int]] = []
        self.is_stopped = False

    async def look_up(self, host: str, port: int) -> list[AddrInfoType]:
        self.asked.append((host, port))
        if self.mood == "failing":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if self.mood == "confused":
            raise UnicodeError("label too long")
        if self.mood == "stalled":
            try:
                await asyncio.sleep(60)
            finally:
                self.is_stopped = True
        await asyncio.sleep(0)
        return [ADDRESS]


class Setting:
    def __init__(self, timeout_seconds: float = 0.05) -> None:
        self.now = 1_000.0
        self.server = NameServer()
        self.resolver = CachingResolver(self.server.look_up, timeout_seconds, lambda: self.now)


@pytest.mark.parametrize("mood", ["failing", "stalled", "confused"])
async def test_an_address_that_was_good_serves_a_while_longer(mood: str) -> None:
    given = Setting()
    await given.resolver.resolve("model", 80)
    given.server.mood = mood
    given.now += LAST_GOOD_SECONDS

    assert await given.resolver.resolve("model", 80) == [ADDRESS]
    assert len(given.server.asked) == 2


async def test_an_address_is_not_good_for_ever() -> None:
    given = Setting()
    await given.resolver.resolve("model", 80)
    given.server.mood = "failing"
    given.now += LAST_GOOD_SECONDS + 1

    with pytest.raises(NameNotResolved, match="not resolved"):
        await given.resolver.resolve("model", 80)


@pytest.mark.parametrize("mood", ["failing", "stalled", "confused"])
async def test_a_name_never_heard_of_has_no_address(mood: str) -> None:
    given = Setting()
    await given.resolver.resolve("model", 80)
    given.server.mood = mood

    with pytest.raises(NameNotResolved, match="not resolved") as failure:
        await given.resolver.resolve("other", 80)

    assert not isinstance(failure.value, TimeoutError)


async def test_a_failure_is_not_remembered() -> None:
    given = Setting()
    given.server.mood = "failing"
    with pytest.raises(NameNotResolved):
        await given.resolver.resolve("model", 80)
    given.server.mood = "well"

    assert await given.resolver.resolve("model", 80) == [ADDRESS]


async def test_an_answer_renews_what_is_known() -> None:
    given = Setting()
    await given.resolver.resolve("model", 80)
    given.now += LAST_GOOD_SECONDS
    await given.resolver.resolve("model", 80)
    given.server.mood = "failing"
    given.now += LAST_GOOD_SECONDS

    assert await given.resolver.resolve("model", 80) == [ADDRESS]


async def test_a_fresh_answer_needs_no_lookup() -> None:
    given = Setting()
    await given.resolver.resolve("model", 80)
    given.server.mood = "failing"
    given.now += FRESH_SECONDS - 0.001

    assert await given.resolver.resolve("model", 80) == [ADDRESS]
    assert given.server.asked == [("model", 80)]


async def test_an_answer_that_is_not_fresh_is_looked_up_again() -> None:
    given = Setting()
    await given.resolver.resolve("model", 80)
    given.now += FRESH_SECONDS

    await given.resolver.resolve("model", 80)

    assert given.server.asked == [("model", 80)] * 2


async def test_another_name_or_port_is_another_lookup() -> None:
    given = Setting()
    for host, port in (("model", 80), ("model", 81), ("other", 80)):
        await given.resolver.resolve(host, port)

    assert given.server.asked == [("model", 80), ("model", 81), ("other", 80)]


async def test_lookups_of_a_name_at_the_same_time_are_one() -> None:
    given = Setting()

    answers = await asyncio.gather(*(given.resolver.resolve("model", 80) for _ in range(5)))

    assert answers == [[ADDRESS]] * 5
    assert given.server.asked == [("model", 80)]


async def test_a_failure_is_told_to_all_who_wait_for_it() -> None:
    given = Setting()
    given.server.mood = "failing"
    waiting = (given.resolver.resolve("model", 80) for _ in range(3))

    answers = await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(answer) for answer in answers] == [NameNotResolved] * 3
    assert given.server.asked == [("model", 80)]


async def test_who_leaves_does_not_stop_the_lookup_of_the_others() -> None:
    given = Setting()
    leaving = asyncio.create_task(given.resolver.resolve("model", 80))
    staying = asyncio.create_task(given.resolver.resolve("model", 80))
    await asyncio.sleep(0)
    leaving.cancel()

    assert await staying == [ADDRESS]
    assert given.server.asked == [("model", 80)]


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))),
        ("::1", (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 80, 0, 0))),
    ],
)
async def test_an_address_needs_no_lookup(host: str, address: AddrInfoType) -> None:
    given = Setting()
    given.server.mood = "failing"

    assert await given.resolver.resolve(host, 80) == [address]
    assert given.server.asked == []


async def test_closing_stops_what_is_being_looked_up() -> None:
    given = Setting(timeout_seconds=60)
    given.server.mood = "stalled"
    waiting = asyncio.create_task(given.resolver.resolve("model", 80))
    await asyncio.sleep(0.001)

    await given.resolver.close()

    assert given.server.is_stopped
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert given.resolver._pending == {}


async def test_the_system_is_asked_for_names() -> None:
    addresses = await look_up("localhost", 80)

    assert {address[4][:2] for address in addresses} <= {("127.0.0.1", 80), ("::1", 80)}
    assert {address[1] for address in addresses} == {socket.SOCK_STREAM}


async def test_several_addresses_take_turns() -> None:
    """An upstream with several addresses gets its connections on all of them."""
    other: AddrInfoType = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", 80))

    async def both(_: str, __: int) -> list[AddrInfoType]:
        return [ADDRESS, other]

    resolver = CachingResolver(both, 1, lambda: 1_000.0)

    first = [(await resolver.resolve("model", 80))[0] for _ in range(4)]

    assert set(first) == {ADDRESS, other}
    assert sorted(await resolver.resolve("model", 80)) == sorted([ADDRESS, other])


async def test_a_name_server_that_hangs_delays_one_dial_and_not_the_next() -> None:
    """B3: the last good addresses are used at once while the failure is new."""
    given = Setting()
    await given.resolver.resolve("model", 80)
    given.server.mood = "stalled"
    given.now += FRESH_SECONDS + 1

    for _ in range(3):
        assert await given.resolver.resolve("model", 80) == [ADDRESS]

    assert len(given.server.asked) == 2
    given.now += FRESH_SECONDS + 1
    await given.resolver.resolve("model", 80)
    assert len(given.server.asked) == 3
