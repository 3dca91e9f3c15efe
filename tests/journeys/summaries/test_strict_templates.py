"""What a strict chat template takes before compaction it takes afterwards, whatever was done."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.journeys.summaries.chats import Chat, loose_chats, questions, steps, strict_chats, words
from tests.journeys.summaries.in_process import Desk, House, Sent, Writer, open_house
from tests.support.strict_template import complaints
from tests.unit.chat.shapes import Fields, says, user

WINDOW = 4_000
SEEN = {"truncate_history": False}
QUICK = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
)
FEW = settings(QUICK, max_examples=12)
# One chat in eight is folded here: so many make the count at the end sure.
MANY = settings(QUICK, max_examples=40)

WRITERS = {
    "a good writer": Writer,
    "a writer who says nothing": lambda: Writer(lambda _: ""),
}


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as opened:
        yield opened


def kinds(messages: list[Fields]) -> set[str]:
    """Return what a strict template has against the messages, wherever it is."""
    return {re.sub(r"message \d+", "message", it) for it in complaints(messages)}


def ask_and_go_on(desk: Desk, chat: list[Fields], more: list[Chat]) -> Iterator[Sent]:
    """Yield what becomes of a conversation, and of it with each further part."""
    yield desk.ask(chat)
    for part in more:
        chat = [*chat, *part]
        yield desk.ask(chat)


@st.composite
def continued(draw: st.DrawFn) -> list[Chat]:
    """Return what a client appends: steps of the turn it is in, then a turn of their own."""
    say = words()
    return [
        Chat(draw(steps(lambda size: "more " + say(size)))),
        Chat([says("more, done"), draw(questions(lambda size: "new " + say(size)))]),
    ]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("sections", [{}, {"vision": SEEN}], ids=["vision limited", "all seen"])
def test_what_a_strict_template_takes_it_takes_compacted(
    house: House, writer: str, sections: dict[str, Any]
) -> None:
    """BUGS 1, 2, 3, 4, 5: parallel calls, thoughts, lists, pictures, developers, agents' runs."""
    labels: Counter[str] = Counter()

    @QUICK
    @given(chat=strict_chats(pictures=True), more=continued())
    def holds(chat: Chat, more: list[Chat]) -> None:
        with house.desk(WINDOW, WRITERS[writer](), **sections) as desk:
            for sent in ask_and_go_on(desk, chat, more):
                labels[sent.label] += 1
                assert complaints(sent.given) == []
                assert complaints(sent.messages) == []

    holds()
    assert labels["built" if writer == "a good writer" else "failed-open"] >= 5


def test_what_a_model_is_asked_for_a_summary_is_taken_too(house: House) -> None:
    """The question rides on the conversation, so it must keep its template's rules as well."""
    asked: list[Fields] = []

    @FEW
    @given(chat=strict_chats(), more=continued())
    def holds(chat: Chat, more: list[Chat]) -> None:
        with house.desk(WINDOW) as desk:
            list(ask_and_go_on(desk, chat, more))
            for question in desk.writer.asked:
                assert complaints(question["messages"]) == []
            asked.extend(desk.writer.asked)

    holds()
    assert len(asked) >= 5


@pytest.mark.parametrize("writer", WRITERS)
def test_nothing_becomes_wrong_that_was_right(house: House, writer: str) -> None:
    """Users in a row, late systems, no first user: a lenient template's chat gets no worse."""
    labels: Counter[str] = Counter()

    @MANY
    @given(chat=loose_chats(), more=continued())
    def holds(chat: Chat, more: list[Chat]) -> None:
        with house.desk(WINDOW, WRITERS[writer]()) as desk:
            for sent in ask_and_go_on(desk, chat, more):
                labels[sent.label] += 1
                assert kinds(sent.messages) <= kinds(sent.given)

    holds()
    assert labels["built" if writer == "a good writer" else "failed-open"] >= 5


@pytest.mark.parametrize("cut", range(1, 7))
def test_an_agents_run_is_taken_at_every_step(house: House, cut: int) -> None:
    """Steps of one, two and three calls, whichever of them the fold ends behind."""
    say = words()
    run = [user("Do it all")]
    for number in range(cut + 12):
        names = [f"{number}-{part}" for part in range(number % 3 + 1)]
        made = [
            {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}
            for name in names
        ]
        run.append(says(None, tool_calls=made, reasoning_content=say(10)))
        run += [{"role": "tool", "tool_call_id": name, "content": say(90)} for name in names]
    with house.desk(WINDOW) as desk:
        sent = desk.ask(run)

    assert sent.label == "built"
    assert complaints(sent.messages) == []
    assert user("Do it all") in sent.messages
