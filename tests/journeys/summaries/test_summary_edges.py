"""The edges of summaries: branches, tiny windows, odd requests, and troubles that do not end."""

import asyncio
import gc
import json
import re
import sys
import time
from asyncio import events
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

import pytest

from chat_proxy.chat.body.request import ChatRequest, read_request
from chat_proxy.errors import UpstreamConnectError
from chat_proxy.proxy.reporting.explain import explain
from chat_proxy.proxy.routing.caller import Caller
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.request import counted_request
from chat_proxy.upstream.client import Call
from tests.journeys.counting.pictures import image, png
from tests.journeys.summaries.in_process import Answered, Desk, House, Writer, open_house
from tests.journeys.summaries.talking import SYSTEM, long_chat, turns
from tests.journeys.trimming.growing import output, step, turn
from tests.support.strict_template import complaints
from tests.unit.chat.shapes import SURROGATE, Fields, says, system, text, user

WINDOW = 8_000
# Coverage makes every line of Python several times slower.
SLOWEST_STEP_SECONDS = 0.25 if sys.gettrace() else 0.06


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house() as opened:
        yield opened


def tool(description: str) -> Fields:
    function = {"name": "f", "description": description, "parameters": {}}
    return {"type": "function", "function": function}


def run_of(steps: int, tokens: int) -> list[Fields]:
    """Return an agent's run of so many steps."""
    made = [step(f"s{number}", output(tokens, number)) for number in range(steps)]
    return [SYSTEM, user("The task"), *(message for each in made for message in each)]


@pytest.mark.parametrize("size", [1_500, 1_600, 1_800])
def test_a_branch_is_not_cut_by_what_was_decided_beyond_its_fork(house: House, size: int) -> None:
    """FAULTS F5: a summary that is there already says nothing of messages that came after it."""
    told = [*turn("one", output(1_000, 1)), *turn("two", output(1_000, 2))]
    late = [*turn("three", output(1_350, 3)), *turn("four", *"abcde")]
    first = [SYSTEM, *turns(7), *told, *late, user("Go on")]
    with house.desk(WINDOW) as desk:
        assert desk.ask(first).label == "built"
        for fork in [place for place in range(13, len(first)) if first[place]["role"] == "user"]:
            sent = desk.ask([*first[:fork], user(output(size, "another way"))])
            assert sent.label != "failed-open"
            assert complaints(sent.messages) == []
            assert sent.messages[-1] == sent.given[-1]


@dataclass
class Divided(Writer):
    """Two servers: the summary model's own is down, the other one writes."""

    async def send(self, call: Call) -> Answered:
        if json.loads(call.body)["model"] == "small":
            raise UpstreamConnectError
        return await super().send(call)


def test_a_summary_model_that_is_left_alone_is_stood_in_for(house: House) -> None:
    """FAULTS C2: the request's own model is asked, also once the other's breaker is open."""
    with house.desk(WINDOW, Divided(), summary={"model": "small"}) as desk:
        chats = [[user(f"Number {number}."), *turns(14), user("And?")] for number in range(12)]
        labels = [desk.ask(chat).label for chat in chats]

    assert labels == ["built"] * 12


@pytest.mark.parametrize("window", [1, 50, 100, 500, 1_500, 3_000])
@pytest.mark.parametrize("share", [0.7, 1.5])
@pytest.mark.parametrize("told", ["written", "never"])
def test_no_request_grows_in_a_tiny_window(
    house: House, window: int, share: float, told: str
) -> None:
    """BUGS 8, 33: what costs more than it wins is not done, by force neither."""
    each = int(window * share / 14)
    chat = [system("Hm.")]
    for number in range(6):
        chat += [user(output(each, f"u{number}")), says(output(each, f"a{number}"))]
    writer = Writer() if told == "written" else Writer(lambda _: "")
    with house.desk(window, writer) as desk:
        sent = [desk.ask([*chat, user("And?")]) for _ in range(2)]

    for it in sent:
        assert it.record.tokens_after is not None
        assert it.record.tokens_before is not None
        assert it.record.tokens_after <= it.record.tokens_before
        assert complaints(it.messages) == []


def test_a_picture_does_not_bring_an_old_summary_back_in_the_middle_of_a_turn(house: House) -> None:
    """BUGS 21: the prefix holds while the turn with the picture grows, whatever its size."""
    with house.desk(24_000) as desk:
        chat = long_chat(45)
        assert desk.ask(chat).label == "built"
        chat += [says("Good."), user([text("Look"), image(png(64, 64))])]
        before = desk.ask(chat)
        for number in range(12):
            chat += step(f"s{number}", output(200, number))
            sent = desk.ask(chat)
            assert before.begins(sent) or sent.record.is_break
            before = sent


def test_a_model_that_never_writes_does_not_let_the_digests_fill_the_window(house: House) -> None:
    """BUGS 10, 26: a digest upon digests stays as long as a summary may be."""
    chat = [SYSTEM]
    most = 0
    with house.desk(3_000, Writer(lambda _: "I cannot")) as desk:
        for number in range(60):
            sent = desk.ask([*chat, user(f"Question {number}")])
            assert sent.record.tokens_after is not None
            most = max(most, sent.record.tokens_after)
            work = [it for part in range(2) for it in step(f"{number}-{part}", output(150, part))]
            chat += [user(f"Question {number}"), *work, says(output(150, number))]

    assert most < 3_000


@pytest.mark.parametrize(
    "fields", [{"tools": [tool(SURROGATE)]}, {"user": SURROGATE}, {"tools": [tool("x")], "n": 3}]
)
def test_odd_fields_do_not_stand_in_the_way_of_a_summary(
    house: House, fields: dict[str, Any]
) -> None:
    """FAULTS A4, A24: half an emoji in a tool's description is forwarded and asked with."""
    with house.desk(WINDOW) as desk:
        sent = desk.ask(long_chat(), **fields)

    assert sent.label == "built"
    assert {key: sent.request.fields[key] for key in fields} == fields
    assert "n" not in desk.writer.asked[0]


@pytest.mark.parametrize("prepare", [1, 0.65])
def test_halves_of_emojis_in_folded_messages_are_no_trouble(house: House, prepare: float) -> None:
    """FAULTS A4: in the fold they are replaced, in what stays they are as they were."""
    chat = [user(f"{SURROGATE} {output(300, number)}") for number in range(20)]
    told = [it for one in chat for it in (one, says(SURROGATE + output(50)))]
    with house.desk(WINDOW, budget={"prepare": prepare}) as desk:
        sent = desk.ask([*told, user(SURROGATE)])

    assert sent.label == "built"
    assert sent.messages[-1] == user(SURROGATE)


@pytest.mark.parametrize(
    "messages",
    [[], [system("x")], [{"role": "alien", "content": "x"}], [{}], [{"role": 5, "content": None}]],
)
@pytest.mark.parametrize("prepare", [1, 0.65])
def test_where_nothing_can_be_folded_the_request_goes_on_as_it_is(
    house: House, messages: list[Fields], prepare: float
) -> None:
    """FAULTS A14, BUGS 8: many tools and hardly a message; the answer says why, with numbers."""
    tools = [tool(output(100, number)) for number in range(80)]
    with house.desk(WINDOW, budget={"prepare": prepare}) as desk:
        sent = desk.ask(messages, tools=tools)

    assert sent.label == ("failed-open" if messages else "none")
    assert sent.body == sent.request.body
    assert desk.writer.asked == []
    said = re.findall(r"instructions and tools alone take ([\d,]+) of 8,000", sent.record.unfit)
    assert [int(tokens.replace(",", "")) > WINDOW for tokens in said] == [True] * bool(messages)


def test_long_integers_survive_in_a_message_that_is_rewritten(house: House) -> None:
    """FAULTS A6: digit for digit, also beside a tool result of which one line is left."""
    digits = "123456789012345678901234567890"
    chat = run_of(14, 350)
    body = json.dumps({"model": "fake", "messages": chat}).replace(
        '"role": "tool",', f'"role": "tool", "row": {digits},'
    )
    with house.desk(WINDOW, summary={"enabled": False}) as desk:
        sent = desk.run(desk.asked_in(body.encode()))

    assert sent.label == "trimmed"
    assert b"[Old tool result content cleared]" in sent.body
    assert sent.body.count(digits.encode()) == 14


def test_whoever_pastes_an_old_summary_into_another_chat_loses_nothing(house: House) -> None:
    """FAULTS C20, BUGS 31: a summary stands for what came before it there, not here."""
    with house.desk(WINDOW) as desk:
        pasted = desk.ask(long_chat()).messages[1]
        chat = [SYSTEM, user("Never touch vault.py."), says("No."), *turns(6, 400, first=50)]
        chat += [pasted, says("I see."), *turns(6, 400, first=90), user("And now?")]
        sent = desk.ask(chat)

    assert sent.label == "built"
    assert "Never touch vault.py." in sent.body.decode()


async def explained(request: ChatRequest, services: Services) -> dict[str, Any]:
    """Explain a request as its endpoint does."""
    route, caller = services.model_routes.of(request.model), Caller("t", [])
    compaction = await counted_request(
        request, route, caller, "explained", services.sizing, is_dry_run=True
    )
    return await explain(compaction, services.compaction)


def test_observing_and_explaining_ask_no_model(house: House) -> None:
    """BUGS 41: neither at the trigger nor ahead of it, and nothing is kept for later."""
    with house.desk(WINDOW, budget={"prepare": 0.65}) as desk:
        for count in (11, 14, 40):
            sent = desk.ask(long_chat(count), mode="observe")
            assert sent.body == sent.request.body
            request = read_request(sent.body, desk.services.limits)
            desk.run(explained(request, desk.services))
        desk.run(asyncio.sleep(0.05))
        assert desk.writer.asked == []
        assert desk.ask(long_chat(14)).label == "built"


def slowest_step(desk: Desk, body: bytes) -> float:
    """Return the longest time that one step of a request kept the event loop busy.

    Without the garbage collector, which has the whole test run to look through.
    """
    slowest = 0.0
    run = events.Handle._run

    def timed(handle: events.Handle) -> None:
        nonlocal slowest
        started = time.thread_time()
        run(handle)
        slowest = max(slowest, time.thread_time() - started)

    gc.collect()
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(events.Handle, "_run", timed)
            desk.run(desk.asked_in(body))
    finally:
        gc.enable()
    return slowest


LONG = {
    "1 MB of turns": [SYSTEM, *turns(270, 800), user("Go on")],
    "1 MB of steps": run_of(400, 800),
    "10,000 messages": [SYSTEM, *turns(4_999, 40), user("Go on")],
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_conversation_holds_up_nobody_else(house: House, name: str) -> None:
    """FAULTS E5: hashing, finding, folding and asking leave the loop to others; best of three."""
    body = json.dumps({"model": "fake", "messages": LONG[name]}, separators=(",", ":")).encode()
    tries: list[float] = []
    while len(tries) < 3 and min(tries, default=inf) >= SLOWEST_STEP_SECONDS:
        with house.desk(128_000) as desk:
            tries.append(max(slowest_step(desk, body), slowest_step(desk, body)))

    assert min(tries) < SLOWEST_STEP_SECONDS
