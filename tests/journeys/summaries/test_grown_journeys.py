"""What becomes of a conversation does not depend on how much of it was read before."""

from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_proxy.chat.body import prefixes, request
from chat_proxy.chat.body.request import PrefixedRequest
from chat_proxy.proxy.summaries.writing import query
from tests.journeys.summaries.in_process import Desk, House, Sent, Writer, open_house, summary_of
from tests.journeys.summaries.test_journey_properties import MOVES, QUICK, SIZES, Client, Move, Talk
from tests.journeys.trimming.growing import output
from tests.unit.chat.shapes import PIXEL, image, text, user

EXAMPLES = 6
WINDOW = 3_000
SECRET = "s" * 32
SHOWS = st.tuples(st.just("show"), SIZES, st.just(0))
DUMPS = st.tuples(st.just("dump"), st.just(0), st.just(0))


class RichTalk(Talk):
    """One with pictures, and with results that are too long."""

    def show(self, size: int, _: int) -> None:
        """Show a picture, and say something."""
        self.ask(size, size)
        self.messages[-1] = user([text(self.say(size)), image(PIXEL)])

    def dump(self, *_: int) -> None:
        """Get far too much from a tool."""
        self.work(1, 1)
        self.messages[-1] = {**self.messages[-1], "content": output(20_000, len(self.messages))}


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as opened:
        yield opened


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (prefixes, request):
        monkeypatch.setattr(module, "BLOCK_BYTES", 512)


@pytest.fixture(autouse=True)
def no_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """What frames a transcript has more tokens or fewer: a small window may hang on it."""
    monkeypatch.setattr(query, "secrets", SimpleNamespace(token_hex="ab".__mul__))


def outcome(sent: Sent) -> dict[str, Any]:
    """All that a client, an operator and an upstream see of a request."""
    record = sent.record
    return {
        "body": sent.body,
        "label": record.compaction,
        "stages": record.stages,
        "failed": record.failed_stages,
        "break": record.is_break,
        "messages": (record.messages_before, record.messages_after),
        "tokens": (record.tokens_before, record.tokens_after),
        "name": record.conversation,
    }


def moved(desk: Desk, moves: list[Move]) -> list[Sent]:
    client = Client(desk, [RichTalk("one"), RichTalk("two")])
    for move in moves:
        list(client.move(move))
    return desk.sent


@pytest.mark.parametrize("writing", ["well", "never"])
def test_a_request_that_is_read_on_becomes_what_it_would_become_as_a_whole(
    house: House, writing: str
) -> None:
    seen: Counter[str] = Counter()

    @settings(QUICK, max_examples=EXAMPLES)
    @given(st.lists(MOVES | SHOWS | DUMPS, min_size=15, max_size=30), st.booleans())
    def holds(moves: list[Move], has_eyes: bool) -> None:
        told: list[list[dict[str, Any]]] = []
        options = {"store": {"url": "memory:", "secret": SECRET}}
        for reads_on in (True, False):
            writer = Writer(summary_of if writing == "well" else lambda _: "")
            with house.desk(
                WINDOW, writer, vision={"truncate_history": has_eyes}, **options
            ) as desk:
                desk.reads_on = reads_on
                sent = moved(desk, moves)
                told.append([outcome(one) for one in sent])
                seen.update(type(one.request).__name__ for one in sent)
                seen.update(one.label for one in sent)
                seen.update(stage for one in sent for stage in one.record.stages)
        assert told[0] == told[1]

    holds()
    assert seen[PrefixedRequest.__name__] >= 8 * EXAMPLES
    assert seen["truncate_tool_output"] >= EXAMPLES
    assert seen["reused"] >= EXAMPLES
