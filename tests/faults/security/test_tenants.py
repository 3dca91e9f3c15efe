"""F4 and F5: nothing of one tenant's is found by another, and nobody can tell that it is there."""

import random
import secrets
from pathlib import Path
from time import process_time

import pytest

from chat_proxy.store.base import Addresses
from tests.faults.security.ranks import chance_of_one_source
from tests.faults.security.tenants import ALICE, BOB, bearer, kept, raw_get
from tests.journeys.summaries.talking import WINDOW, label, long_chat, talking
from tests.support.live import RawClient, http_client, raw_client, running_proxy
from tests.support.summary_model import SummaryModel
from tests.unit.chat.shapes import user
from tests.unit.proxy.session.recognition.histories import words

pytestmark = pytest.mark.anyio

NOBODY = "http://127.0.0.1:1/v1"
AUTHORIZATION = "authorization: Bearer "
UPDATE = "An earlier summary stands at the beginning"
SAMPLES = 1_000


async def test_f4_the_same_history_from_another_tenant_finds_nothing() -> None:
    """F4: word for word, and each is summarised under its own authorization."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        labels = [label(await talk.ask(long_chat(), AUTHORIZATION + who)) for who in (ALICE, BOB)]

    assert labels == ["built", "built"]
    asked_by = [question.received.header("authorization") for question in brain.summaries]
    assert asked_by == [f"Bearer {ALICE}", f"Bearer {BOB}"]


async def test_f4_another_tenant_s_summary_with_its_mark_is_plain_text() -> None:
    """F4: the mark is signed for its tenant; what it claims to cover is not believed."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        folded = (await talk.ask(long_chat(), AUTHORIZATION + ALICE)).messages
        again = [*folded, *long_chat(10)[1:-1], user("Go on.")]
        await talk.ask(again, AUTHORIZATION + BOB)
        theirs = brain.summaries[-1]
        await talk.ask(again, AUTHORIZATION + ALICE)
        own = brain.summaries[-1]

    assert "[chat-proxy checkpoint " in folded[1]["content"]
    assert UPDATE not in theirs.texts[-1]
    assert UPDATE in own.texts[-1]


async def test_f4_a_foreign_id_is_answered_as_one_that_nobody_has() -> None:
    """F4: byte for byte, and its owner gets it all the while."""
    async with running_proxy(NOBODY) as proxy, raw_client(proxy) as client:
        path = await kept(proxy, ALICE, "the text")
        foreign = await raw_get(client, path, BOB)
        unknown = await raw_get(client, "/v1/offload/" + "0" * 32, BOB)
        async with http_client(proxy, headers=bearer(ALICE)) as owner:
            own = await owner.get(path)

    assert foreign.startswith(b"http/1.1 404")
    assert foreign == unknown
    assert own.text == "the text"


async def test_f4_a_foreign_id_takes_no_longer_than_an_unknown_one(tmp_path: Path) -> None:
    """F4: 1,000 of each in random order, told apart by no rank test; best of three."""
    store = {"url": f"sqlite:///{tmp_path}/store.db"}
    async with running_proxy(NOBODY, store=store) as proxy, raw_client(proxy) as client:
        foreign = [await kept(proxy, ALICE, f"text {number}") for number in range(SAMPLES)]
        chances: list[float] = []
        while len(chances) < 3 and max(chances, default=0) <= 0.01:
            chances.append(chance_of_one_source(*await timed(client, foreign)))

    assert max(chances) > 0.01, chances


def test_f4_the_rank_test_tells_two_sources_apart() -> None:
    """F4: half of the spread is enough, so that the test above can fail."""
    dice = random.Random(4)
    first, same = ([dice.gauss(1, 0.1) for _ in range(SAMPLES)] for _ in range(2))
    slower = [dice.gauss(1.05, 0.1) for _ in range(SAMPLES)]

    assert chance_of_one_source(first, same) > 0.01
    assert chance_of_one_source(first, slower) < 1e-6


async def timed(client: RawClient, foreign: list[str]) -> tuple[list[float], list[float]]:
    """Return the seconds of asking for every foreign id, and for as many that nobody has."""
    unknown = [f"/v1/offload/{secrets.token_hex(16)}" for _ in foreign]
    paths = [(path, 0) for path in foreign] + [(path, 1) for path in unknown]
    random.shuffle(paths)
    seconds: tuple[list[float], list[float]] = ([], [])
    for path, kind in paths:
        start = process_time()
        assert (await raw_get(client, path, BOB)).startswith(b"http/1.1 404")
        seconds[kind].append(process_time() - start)
    return seconds


def test_f5_no_two_keys_of_different_parts_are_the_same() -> None:
    """F5: the same bytes parted in 1,500 ways, some with a length written in: 10^6 pairs."""
    dice, address = random.Random(5), Addresses(b"secret").of
    whole = (5).to_bytes(8, "big") + dice.randbytes(24)
    ways = {parted(whole, dice) for _ in range(6_000)}

    assert len(ways) * (len(ways) - 1) / 2 > 10**6
    assert len({address(*way) for way in ways}) == len(ways)


def parted(whole: bytes, dice: random.Random) -> tuple[bytes, ...]:
    """Return the bytes in up to four parts, some of them empty."""
    cuts = sorted(dice.randint(0, len(whole)) for _ in range(dice.randint(0, 3)))
    return tuple(whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True))


def test_f5_no_message_runs_over_into_the_next() -> None:
    """F5: every link of a history depends on where its messages end."""
    dice = random.Random(6)
    links: dict[bytes, tuple[bytes, ...]] = {}
    for _ in range(5_000):
        history = parted(b'{"a":"' + dice.randbytes(4).hex().encode() + b'"}', dice)
        link = words(*(part.decode() for part in history)).links[-1]
        assert links.setdefault(link, history) == history
