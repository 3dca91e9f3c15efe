"""Conversations that grow, branch and interleave at random, and what must hold of each request."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from tests.journeys.summaries.in_process import Desk, House, Sent, Writer, open_house, summary_of
from tests.journeys.summaries.talking import turns
from tests.journeys.trimming.growing import has_whole_pairs, output, step
from tests.support.message_slices import message_slices
from tests.support.strict_template import complaints
from tests.support.summary_model import tokenizer
from tests.unit.chat.shapes import Fields, developer, says, system, user

WINDOW = 3_000
LIMIT = 2_744
"""The longest prompt that leaves the window space for an ordinary answer."""
LOOKED_FOR_FROM = 1_050
"""Half of the trigger: no earlier decision is looked for below."""
RATIO = 1.2
"""More tokens than this for one of the tokenizer's are never assumed here."""
LEADING = [system("Be brief. " * 20), developer("Use tools.")]
QUICK = settings(
    max_examples=12,
    deadline=None,
    # A failure is told in a second; to make its moves fewer takes minutes.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)

SIZES = st.sampled_from([1, 60, 300, 500])
MOVES = st.one_of(
    st.tuples(st.just("ask"), SIZES, SIZES),
    st.tuples(st.just("ask"), SIZES, SIZES),
    st.tuples(st.just("work"), SIZES, st.integers(1, 3)),
    st.tuples(st.just("work"), SIZES, st.integers(1, 3)),
    st.tuples(st.just("edit"), SIZES, st.just(0)),
    st.tuples(st.just("again"), st.just(0), st.just(0)),
    st.tuples(st.just("back"), st.integers(0, 9), st.just(0)),
    st.tuples(st.just("switch"), st.just(0), st.just(0)),
    st.tuples(st.just("title"), st.just(0), st.just(0)),
)
Move = tuple[str, int, int]
Sections = dict[str, dict[str, object]]


@dataclass
class Talk:
    """One conversation as its client knows it: what it has, and what it sent so far."""

    name: str
    messages: list[Fields] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    returns: bool = False
    """Whether the last request was an old one: what follows may go on from a later form of it."""
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.messages = [*LEADING, user(f"{self.name}: let us begin")]

    def say(self, tokens: int) -> str:
        return output(tokens, f"{self.name} {next(self._numbers)}")

    def ask(self, answer: int, question: int) -> None:
        """Take in an answer and ask the next question."""
        self.messages = [*self.messages, says(self.say(answer)), user(self.say(question))]

    def work(self, size: int, parallel: int) -> None:
        """Make a step: calls at once, and their results."""
        name = f"{self.name}-{next(self._numbers)}"
        results = [self.say(size) for _ in range(parallel)]
        caller, *told = step(name, *results)
        thoughtful = {**caller, "reasoning_content": self.say(20)}
        self.messages = [*self.messages, thoughtful, *told]

    def edit(self, size: int, _: int) -> None:
        """Write the last message anew."""
        *before, last = self.messages
        self.messages = [*before, {**last, "content": self.say(size)}]

    def back(self, place: int, _: int) -> None:
        """Go back to what was sent some requests ago."""
        if self.sent:
            self.messages = self.sent[max(0, len(self.sent) - 1 - place)].given

    def again(self, *_: int) -> None:
        """Send the same once more."""


@dataclass
class Client:
    """A client with two conversations at one proxy, and titles to be found in between."""

    desk: Desk
    talks: list[Talk] = field(default_factory=lambda: [Talk("one"), Talk("two")])

    def move(self, move: Move) -> Iterator[tuple[Sent | None, Sent]]:
        """Do one thing; yield each request, and the one before if it goes on from there."""
        kind, first, second = move
        if kind == "switch":
            self.talks.reverse()
            return
        if kind == "title":
            told = json.dumps(self.talks[0].messages)[:9_000]
            yield None, self.desk.ask([system("Find a title."), user(told)])
            return
        talk = self.talks[0]
        act: Callable[[int, int], None] = getattr(talk, kind)
        act(first, second)
        goes_on = bool(talk.sent) and not talk.returns and kind != "back"
        before = talk.sent[-1] if goes_on else None
        talk.returns = kind == "back" or (kind == "again" and talk.returns)
        talk.sent.append(self.desk.ask(talk.messages))
        is_on = before is not None and talk.messages[: len(before.given)] == before.given
        yield before if is_on else None, talk.sent[-1]


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as opened:
        yield opened


def leading_bytes(body: bytes) -> list[bytes]:
    """Return the instructions in front, byte for byte."""
    messages = json.loads(body)["messages"]
    conversation = Conversation.of(messages)
    assert conversation is not None
    places = message_slices(body)[: conversation.instructions]
    return [body[place] for place in places]


def asked_now(messages: list[Fields]) -> list[Fields]:
    """Return the user messages of the current turn."""
    conversation = Conversation.of(messages)
    assert conversation is not None
    turn = conversation.current_turn
    return [messages[index] for index in turn.users] if turn else []


def stands_in(some: Sequence[Fields], messages: Sequence[Fields]) -> bool:
    """Tell whether messages stand among others, in their order."""
    left = iter(messages)
    return all(any(one == other for other in left) for one in some)


def new_results(messages: list[Fields]) -> list[Fields]:
    """Return the results that the model has not seen yet."""
    end = len(messages)
    while messages[end - 1]["role"] == "tool":
        end -= 1
    return messages[end:]


def check_new_results(sent: Sent) -> None:
    """What the model has not seen yet is whole, or shortened because it does not fit whole."""
    shown = {it["tool_call_id"]: it["content"] for it in sent.messages if it["role"] == "tool"}
    omitted = 0
    for result in new_results(sent.given):
        whole, left = result["content"], shown[result["tool_call_id"]]
        omitted += tokenizer().count(whole) - tokenizer().count(left)
        head, note, tail = left.partition("[Tool output truncated: omitted ")
        assert left == whole or (note and head and tail)
        assert whole.startswith(head.rstrip("\n"))
        assert whole.endswith(tail.rpartition("]")[2].lstrip("\n"))
    # How long the parts of a prompt will be is estimated before they are written.
    assert not omitted or (sent.record.tokens_after or 0) + omitted * RATIO > 0.95 * LIMIT


def check(sent: Sent) -> None:
    """What holds of every request that goes upstream."""
    assert sent.record.tokens_after is not None
    assert sent.record.tokens_before is not None
    assert complaints(sent.given) == []
    assert complaints(sent.messages) == []
    assert has_whole_pairs(sent.messages)
    assert leading_bytes(sent.body) == leading_bytes(sent.request.body)
    assert stands_in(asked_now(sent.given), sent.messages)
    check_new_results(sent)
    assert sent.record.tokens_after <= sent.record.tokens_before


def grow(client: Client, moves: list[Move], labels: Counter[str]) -> None:
    """Make all moves; each prompt begins with the one before unless a break is on record."""
    for move in moves:
        for before, sent in client.move(move):
            labels[sent.label] += 1
            check(sent)
            if before is not None:
                is_found_late = (before.record.tokens_before or 0) < LOOKED_FOR_FROM
                is_found_late = is_found_late and (before.label, sent.label) == ("none", "reused")
                assert before.begins(sent) or sent.record.is_break or is_found_late


@pytest.mark.parametrize("writing", ["well", "never"])
@pytest.mark.parametrize(
    ("prepare", "wait"),
    [(1, "trigger"), (0.65, "trigger"), (0.65, "overflow")],
    ids=["when it is needed", "ahead", "nobody waits"],
)
def test_whatever_a_client_does_each_request_is_sound(
    house: House, writing: str, prepare: float, wait: str
) -> None:
    """BUGS 1, 2, 4, 9, 10, 23, 24, 38, 44, 46: valid, stable, nothing sacred touched or lost."""
    labels: Counter[str] = Counter()

    @QUICK
    @given(st.lists(MOVES, min_size=20, max_size=40))
    def holds(moves: list[Move]) -> None:
        writer = Writer(summary_of if writing == "well" else lambda _: "")
        sections: Sections = {"budget": {"prepare": prepare}, "summary": {"wait": wait}}
        with house.desk(WINDOW, writer, **sections) as desk:
            grow(Client(desk), moves, labels)

    holds()
    assert labels["reused"] >= 10
    assert labels["built" if writing == "well" else "failed-open"] >= 5


@pytest.mark.parametrize("size", [150, 300, 700])
def test_an_agents_run_can_be_taken_up_again_at_any_step(house: House, size: int) -> None:
    """BUGS 24, 38: the step that a fold ends at has not lost its question when it comes again."""
    with house.desk(WINDOW) as desk:
        client = Client(desk)
        talk = client.talks[0]
        for _ in range(20):
            list(client.move(("work", size, 1)))
        assert "built" in {sent.label for sent in talk.sent}
        for earlier in talk.sent[::-1]:
            check(desk.ask(earlier.given))


def test_a_run_that_was_stopped_at_any_step_keeps_its_task(house: House) -> None:
    """BUGS 31: who breaks in behind the fold's last step asks about a task that must be known."""
    with house.desk(WINDOW) as desk:
        client = Client(desk)
        talk = client.talks[0]
        for _ in range(20):
            list(client.move(("work", 300, 1)))
        for earlier in talk.sent:
            sent = desk.ask([*earlier.given, says("Stopped."), user("What was it again?")])
            check(sent)
            assert "one: let us begin" in sent.body.decode()


def test_a_second_tenant_gets_nothing_of_the_first(house: House) -> None:
    """BUGS 36, FAULTS F4: the same bytes from another tenant are another conversation."""
    messages = [*LEADING, *turns(7, 280), user("And now?")]
    body = json.dumps({"model": "fake", "messages": messages}).encode()
    with house.desk(WINDOW) as desk:
        labels, asked = [], []
        for tenant in ("a", "b", "a", "b"):
            labels.append(desk.run(desk.asked_in(body, tenant=tenant)).label)
            asked.append(len(desk.writer.asked))

    assert labels == ["built", "built", "reused", "reused"]
    assert asked == [asked[0], *[2 * asked[0]] * 3]
    assert asked[0] > 0
