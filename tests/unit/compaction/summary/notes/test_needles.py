"""Two hundred facts that a summary lost by half: the notes have them again."""

import random

import pytest

from chat_proxy.compaction.summary.notes.select import notes
from chat_proxy.tokens.tiktoken_counter import TiktokenCounter
from tests.unit.chat.shapes import conversation, says, user

ROOM = 3_000


class Facts:
    """Two hundred facts in a conversation, and a summary that lost every second one."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.paths = [f"srv/{chance.choice('abc')}pp/mod{n}/file_{n}.py" for n in range(50)]
        self.names = [
            form.format(n + 100)
            for n in range(10)
            for form in ("OPS-{}", "retry_count_{}", "CACHE_TTL_{}", "--limit-{}", "9f{}c0de")
        ]
        self.errors = [f"ValueError: shard_{n:02} lost quorum" for n in range(30)]
        self.demands = [f"You must never restart service number {n} at night." for n in range(30)]
        self.numbers = [f"{n}7 ms" for n in range(1, 41)]
        facts = [*self.paths, *self.names, *self.errors, *self.demands, *self.numbers]
        chance.shuffle(facts)
        self.summary = "\n".join(f"- {fact}" for fact in facts[::2])
        chatter = "I looked at it and there is a lot to say about that. " * 10
        self.messages = [
            message
            for fact in facts
            for message in (user(f"Look at this now:\n{fact}\nand tell me more."), says(chatter))
        ]


def kept(facts: list[str], text: str) -> float:
    return sum(fact in text for fact in facts) / len(facts)


@pytest.fixture(scope="module")
def o200k() -> TiktokenCounter:
    counter = TiktokenCounter("o200k_base")
    assert counter.load()
    return counter


@pytest.mark.parametrize("seed", range(3))
def test_facts_of_the_user_are_found_again(seed: int, o200k: TiktokenCounter) -> None:
    """BUGS 31"""
    given = Facts(seed)
    numbered = list(enumerate(conversation(*given.messages).messages))

    found = notes(numbered, {}, given.summary, ROOM, o200k.count)

    whole = f"{given.summary}\n{found}"
    assert o200k.count(found) <= ROOM
    assert kept(given.paths, whole) >= 0.9
    assert kept(given.names, whole) >= 0.9
    assert kept(given.errors, whole) >= 0.9
    assert kept(given.numbers, whole) >= 0.9
    assert kept(given.demands, whole) == 1
