from itertools import pairwise
from statistics import fmean

import orjson

from bench.traffic.payloads import TURNS, GrowingChats, payload


def test_each_request_begins_with_the_messages_of_the_last_one() -> None:
    chats = GrowingChats(1)
    requests = [orjson.loads(chats.body(0, serial))["messages"] for serial in range(TURNS)]

    for earlier, later in pairwise(requests):
        assert later[: len(earlier)] == earlier
        assert [it["role"] for it in later[len(earlier) - 1 :]] == [
            *["user", "assistant", "tool", "assistant"],
            "user",
        ]


def test_a_conversation_ends_and_another_one_begins_with_other_messages() -> None:
    chats = GrowingChats(1)
    bodies = [chats.body(0, serial) for serial in range(TURNS + 1)]
    first, last, again = (orjson.loads(bodies[at])["messages"] for at in (0, TURNS - 1, TURNS))

    assert 230_000 < len(bodies[TURNS - 1]) < 250_000
    assert len(again) == len(first) == 2
    assert all(one["content"] != other["content"] for one, other in zip(first, again, strict=True))
    assert first[0] == last[0]


def test_few_requests_are_as_long_on_average_as_many() -> None:
    for count in (4, TURNS, 5 * TURNS):
        chats = GrowingChats(16)
        sizes = [
            len(chats.body(connection, connection * 1_000 + number))
            for number in range(count)
            for connection in range(16)
        ]

        assert 110_000 < fmean(sizes) < 130_000


def test_connections_have_conversations_of_their_own() -> None:
    chats = GrowingChats(2)
    one, other = (orjson.loads(chats.body(at, at))["messages"] for at in (0, 1))

    assert one[0] != other[0]
    assert len(other) > len(one)


def test_other_requests_differ_by_their_number_alone() -> None:
    small = payload("small")

    assert len(small.body(0, 1)) == len(small.body(1, 99_999))
    assert small.body(0, 1) != small.body(0, 2)
