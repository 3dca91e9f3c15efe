"""Writes of one turn of the loop go out together, in their order, and none of them late."""

import asyncio

import pytest

from app.upstream.outbox import MOST_LETTERS, Outbox

pytestmark = pytest.mark.anyio


class Written(asyncio.WriteTransport):
    """A transport that keeps what is written to it, and refuses it once it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        assert not self.is_closed
        self.parts.append(data)

    def is_closing(self) -> bool:
        return self.is_closed


async def test_a_lone_writer_writes_at_once() -> None:
    outbox, transport = Outbox(), Written()
    outbox.woken, outbox.ran = 1, 1

    outbox.send(transport, (b"head", b"body"))

    assert transport.parts == [b"head", b"body"]


async def test_what_is_written_before_the_last_of_a_turn_waits_for_him() -> None:
    outbox, first, last = Outbox(), Written(), Written()
    outbox.woken, outbox.ran = 2, 1

    outbox.send(first, (b"1",))
    assert first.parts == []
    outbox.ran += 1
    outbox.send(last, (b"2",))

    assert (first.parts, last.parts) == ([b"1"], [b"2"])


async def test_nothing_waits_for_somebody_who_writes_nothing() -> None:
    outbox, transport = Outbox(), Written()
    outbox.woken = 1

    outbox.send(transport, (b"1",))
    await asyncio.sleep(0)

    assert transport.parts == [b"1"]


async def test_one_who_was_woken_and_never_ran_holds_up_one_turn_only() -> None:
    outbox, transport = Outbox(), Written()
    outbox.woken = 1
    outbox.send(transport, (b"1",))
    await asyncio.sleep(0)

    outbox.send(transport, (b"2",))

    assert transport.parts == [b"1", b"2"]


async def test_who_was_woken_meanwhile_is_still_waited_for() -> None:
    outbox, transport = Outbox(), Written()
    outbox.woken = 1
    outbox.send(transport, (b"1",))
    outbox.woken += 1
    await asyncio.sleep(0)

    outbox.send(transport, (b"2",))

    assert transport.parts == [b"1"]


async def test_only_so_many_messages_are_held() -> None:
    outbox, transport = Outbox(), Written()
    outbox.woken = 2 * MOST_LETTERS

    for number in range(MOST_LETTERS):
        outbox.send(transport, (b"%d" % number,))

    assert transport.parts == [b"%d" % number for number in range(MOST_LETTERS)]


async def test_a_connection_that_is_gone_costs_the_others_nothing() -> None:
    outbox, gone, there = Outbox(), Written(), Written()
    outbox.woken = 2
    outbox.send(gone, (b"1",))
    outbox.send(there, (b"2",))

    gone.is_closed = True
    outbox.deliver()

    assert (gone.parts, there.parts) == ([], [b"2"])
