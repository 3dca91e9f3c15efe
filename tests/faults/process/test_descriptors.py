"""Row E6: no file descriptors left; half of them are kept for the way to the upstream."""

import asyncio
import resource
from contextlib import suppress
from pathlib import Path

import pytest

from chat_proxy.http.process.connection_limit import (
    RESERVED_DESCRIPTORS,
    most_connections,
    take_more_descriptors,
)
from tests.faults.faulty import is_error
from tests.support.fake_model import fake_model, polite
from tests.support.live import (
    RawAnswer,
    chat_request,
    eventually,
    raw_client,
    running_proxy,
)
from tools.crowds.run import Holding, ProxyProcess, open_streams, proxy_process

pytestmark = pytest.mark.anyio

DESCRIPTORS = 256
ROOM = (DESCRIPTORS - RESERVED_DESCRIPTORS) // 2
SILENT = 300


def cpu_seconds(pid: int) -> float:
    """What the process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


HEALTH = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
MODELS = b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"


async def ask_anew(proxy: ProxyProcess, question: bytes = MODELS) -> RawAnswer:
    client = await proxy.connect()
    try:
        await client.send(question)
        return await client.answer()
    finally:
        client.leave()


async def test_e6_when_descriptors_run_out_newcomers_are_told_and_the_others_go_on() -> None:
    loop = asyncio.get_running_loop()
    async with proxy_process(Holding(0.2), descriptors=DESCRIPTORS) as proxy:
        async with open_streams(proxy, ROOM) as streams:
            refused = await ask_anew(proxy)
            health = await ask_anew(proxy, HEALTH)
            silent = [await proxy.connect() for _ in range(SILENT)]
            used, began = cpu_seconds(proxy.pid), loop.time()
            for _ in range(5):
                await asyncio.gather(*(client.reader.readuntil(b"word ") for client in streams))
            busy = (cpu_seconds(proxy.pid) - used) / (loop.time() - began)
            most = proxy.descriptors()
            for client in silent:
                client.leave()
        answer = await until_served(proxy)

    assert is_error(refused, 503, "overloaded")
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["connection"] == "close"
    assert health.status == 200
    assert most < DESCRIPTORS
    assert busy < 0.9
    assert answer.status == 200


async def until_served(proxy: ProxyProcess) -> RawAnswer:
    """Ask until there is room again; as long as far too many are there, nobody is answered."""
    async with asyncio.timeout(60):
        while True:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                answer = await ask_anew(proxy)
                if answer.status == 200:
                    return answer
            await asyncio.sleep(0.05)


async def test_e6_connections_that_were_there_are_served_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One too many is refused; far too many are broken off; and all is well when they are gone."""
    monkeypatch.setattr("chat_proxy.cli.serve.most_connections", lambda: 1)
    async with (
        fake_model(polite) as model,
        running_proxy(model.url) as proxy,
        raw_client(proxy) as first,
    ):
        await first.send(chat_request())
        answers = [await first.answer()]
        async with raw_client(proxy) as second:
            await second.send(chat_request())
            refused = await second.answer()
            await second.rest()
        held = [raw_client(proxy) for _ in range(RESERVED_DESCRIPTORS)]
        clients = [await each.__aenter__() for each in held]
        broken = await clients[-1].rest()
        await first.send(chat_request())
        answers.append(await first.answer())
        for each in held:
            await each.__aexit__(None, None, None)
        await eventually(lambda: len(proxy.server.server_state.connections) == 1)
        first.leave()
        await eventually(lambda: not proxy.server.server_state.connections)
        async with raw_client(proxy) as newcomer:
            await newcomer.send(chat_request())
            answers.append(await newcomer.answer())

    assert [answer.status for answer in answers] == [200, 200, 200]
    assert is_error(refused, 503, "overloaded")
    assert broken == b""


@pytest.mark.parametrize(
    ("limit", "most"), [(256, 96), (20_000, 9_968), (10, 1), (resource.RLIM_INFINITY, 65_536)]
)
def test_e6_there_is_room_for_half_of_the_descriptors(
    monkeypatch: pytest.MonkeyPatch, limit: int, most: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))

    assert most_connections() == most


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [
        (1_024, 20_000, (20_000, 20_000)),
        (1_024, resource.RLIM_INFINITY, (65_536, resource.RLIM_INFINITY)),
        (256, 256, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, None),
    ],
)
def test_e6_a_process_takes_the_descriptors_that_it_may_have(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, raised: tuple[int, int] | None
) -> None:
    taken: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: taken.append(limits))

    take_more_descriptors()

    assert taken == ([raised] if raised else [])
