"""Row B3: names, and what happens while a name server fails."""

import asyncio
import socket

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from chat_proxy.http.client.resolver import LAST_GOOD_SECONDS, CachingResolver

pytestmark = pytest.mark.anyio

ADDRESS = ResolveResult(
    hostname="model", host="127.0.0.1", port=80, family=socket.AF_INET, proto=6, flags=0
)


class NameServer(AbstractResolver):
    """Knows one address, and fails or stalls when told to."""

    def __init__(self) -> None:
        self.mood = "well"
        self.is_closed = False

    async def resolve(
        self,
        host: str,  # noqa: ARG002 - it knows but one
        port: int = 0,  # noqa: ARG002
        family: socket.AddressFamily = socket.AF_INET,  # noqa: ARG002
    ) -> list[ResolveResult]:
        if self.mood == "failing":
            raise socket.gaierror(-2, "Name or service not known")
        if self.mood == "stalled":
            await asyncio.sleep(60)
        return [ADDRESS]

    async def close(self) -> None:
        self.is_closed = True


class Setting:
    def __init__(self) -> None:
        self.now = 1_000.0
        self.server = NameServer()
        self.resolver = CachingResolver(self.server, 0.05, lambda: self.now)


@pytest.mark.parametrize("mood", ["failing", "stalled"])
async def test_an_address_that_was_good_serves_a_while_longer(mood: str) -> None:
    given = Setting()
    await given.resolver.resolve("model", 80)
    given.server.mood = mood
    given.now += LAST_GOOD_SECONDS

    assert await given.resolver.resolve("model", 80) == [ADDRESS]


async def test_an_address_is_not_good_for_ever() -> None:
    given = Setting()
    await given.resolver.resolve("model", 80)
    given.server.mood = "failing"
    given.now += LAST_GOOD_SECONDS + 1

    with pytest.raises(OSError, match="not resolved"):
        await given.resolver.resolve("model", 80)


@pytest.mark.parametrize("mood", ["failing", "stalled"])
async def test_a_name_never_heard_of_has_no_address(mood: str) -> None:
    given = Setting()
    await given.resolver.resolve("model", 80)
    given.server.mood = mood

    with pytest.raises(OSError, match="not resolved") as failure:
        await given.resolver.resolve("other", 80)

    assert not isinstance(failure.value, TimeoutError)


async def test_an_answer_renews_what_is_known() -> None:
    given = Setting()
    await given.resolver.resolve("model", 80)
    given.now += LAST_GOOD_SECONDS
    await given.resolver.resolve("model", 80)
    given.server.mood = "failing"
    given.now += LAST_GOOD_SECONDS

    assert await given.resolver.resolve("model", 80) == [ADDRESS]


async def test_closing_closes_the_one_that_is_asked() -> None:
    given = Setting()
    await given.resolver.close()

    assert given.server.is_closed
