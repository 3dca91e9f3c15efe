"""Writes of one turn of the loop go out together, in their order, and none of them late."""

import asyncio
import time

import pytest

from chat_proxy.http.write_batch import MAX_WRITES, WriteBatch

pytestmark = pytest.mark.anyio


class Written(asyncio.WriteTransport):
    """A transport that keeps what is written to it, and refuses it behind an end of file."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[bytes] = []
        self.is_closed = False
        self.is_ended = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        assert not self.is_closed
        if self.is_ended:
            raise RuntimeError("write() behind write_eof()")
        self.parts.append(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def abort(self) -> None:
        self.is_closed = True


def outbox_with(awaited: int) -> WriteBatch:
    """Return one that waits for so many tasks."""
    outbox = WriteBatch()
    for _ in range(awaited):
        outbox.wake()
    return outbox


async def test_a_lone_writer_writes_at_once() -> None:
    outbox, transport = outbox_with(1), Written()
    outbox.run()

    outbox.send(transport, (b"head", b"body"))

    assert transport.parts == [b"head", b"body"]


async def test_what_is_written_before_the_last_of_a_turn_waits_for_him() -> None:
    outbox, first, last = outbox_with(2), Written(), Written()
    outbox.run()

    outbox.send(first, (b"1",))
    assert first.parts == []
    outbox.run()
    outbox.send(last, (b"2",))

    assert (first.parts, last.parts) == ([b"1"], [b"2"])


async def test_nothing_waits_for_somebody_who_writes_nothing() -> None:
    outbox, transport = outbox_with(1), Written()

    outbox.send(transport, (b"1",))
    await asyncio.sleep(0)

    assert transport.parts == [b"1"]


async def test_one_who_was_woken_and_never_ran_holds_up_one_turn_only() -> None:
    outbox, transport = outbox_with(1), Written()
    outbox.send(transport, (b"1",))
    await asyncio.sleep(0)

    outbox.send(transport, (b"2",))

    assert transport.parts == [b"1", b"2"]


async def test_who_was_woken_meanwhile_is_still_waited_for() -> None:
    outbox, transport = outbox_with(1), Written()
    outbox.send(transport, (b"1",))
    outbox.wake()
    await asyncio.sleep(0)

    outbox.send(transport, (b"2",))

    assert transport.parts == [b"1"]


async def test_only_so_many_messages_are_held() -> None:
    outbox, transport = outbox_with(2 * MAX_WRITES), Written()

    for number in range(MAX_WRITES):
        outbox.send(transport, (b"%d" % number,))

    assert transport.parts == [b"%d" % number for number in range(MAX_WRITES)]


async def test_a_connection_that_is_gone_costs_the_others_nothing() -> None:
    outbox, gone, there = outbox_with(2), Written(), Written()
    outbox.send(gone, (b"1",))
    outbox.send(there, (b"2",))

    gone.is_closed = True
    outbox.deliver()

    assert (gone.parts, there.parts) == ([], [b"2"])


async def test_one_that_refuses_is_broken_off_and_costs_the_others_nothing() -> None:
    outbox, ended, there = outbox_with(2), Written(), Written()
    ended.is_ended = True
    outbox.send(ended, (b"1",))
    outbox.send(there, (b"2",))

    outbox.deliver()

    assert (ended.is_closed, there.parts) == (True, [b"2"])


async def test_what_is_held_does_not_wait_for_one_long_step_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B14: a token goes on though many who were woken with it have much to do."""
    monkeypatch.setattr(
        "chat_proxy.http.write_batch.MAX_SECONDS", 0.2
    )  # more than a busy core takes
    outbox, transport = outbox_with(3), Written()
    outbox.run()
    outbox.send(transport, (b"1",))
    outbox.run()
    assert transport.parts == []

    time.sleep(0.25)  # noqa: ASYNC251 - a step that holds the loop
    outbox.run()

    assert transport.parts == [b"1"]
