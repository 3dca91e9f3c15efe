"""Rides only where they ride: behind a prompt that the upstream's cache really has."""

import json
from itertools import chain
from typing import Any

import pytest

from tests.journeys.summaries.talking import (
    SYSTEM,
    WINDOW,
    Talk,
    body_of,
    label,
    long_chat,
    post,
    talking,
    turns,
)
from tests.journeys.summaries.test_shapes import shared_bytes
from tests.journeys.trimming.growing import listening, output, step
from tests.support.fake_model import Line
from tests.support.summary_model import (
    Question,
    SummaryModel,
    answer,
    calling,
    chosen,
    in_turn,
    tokenizer,
    written,
)
from tests.unit.chat.shapes import Fields, says, user

pytestmark = pytest.mark.anyio

LARGE_WINDOW = 30_000
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
]
NAMED: dict[str, Any] = {"type": "function", "function": {"name": "read"}}
ALLOWED: dict[str, Any] = {
    "type": "allowed_tools",
    "allowed_tools": {"mode": "auto", "tools": [NAMED]},
}


def conversation(number: int) -> list[Fields]:
    """Return a conversation over the trigger, no two alike."""
    return [SYSTEM, *turns(14, first=20 * number), user("And now?")]


def shapes(brain: SummaryModel) -> list[str]:
    """Return the shapes of all questions for a summary; a transcript is one long message."""
    return ["ride" if len(it.messages) > 2 else "transcript" for it in brain.summaries]


def prompt_of(question: Question) -> str:
    """Return a prompt as SGLang renders it: without the tools if none may be called."""
    fields = question.fields
    tools = fields.get("tools") if fields.get("tool_choice") != "none" else None
    return json.dumps(tools) + "".join(map(json.dumps, fields["messages"]))


def cached_share(question: Question, brain: SummaryModel) -> float:
    """Return the share of a prompt that is a prefix of an earlier one."""
    prompt = prompt_of(question).encode()
    known = (shared_bytes(prompt, prompt_of(chat).encode()) for chat in brain.chats)
    return max(known, default=0) / len(prompt)


def reporting(*shares: float | None) -> SummaryModel:
    """Return a model that reports such shares of its rides as cached; the last one stays."""
    left = list(shares)

    async def tell(question: Question, line: Line) -> None:
        share = left.pop(0) if len(left) > 1 else left[0]
        more = {} if share is None else {"cached_tokens": int(share * question.tokens)}
        await answer(question, line, written(chosen(question)), **more)

    return SummaryModel(tell, window=WINDOW)


def figures(talk: Talk, name: str) -> dict[str, float]:
    """Return a metric's figures by their labels."""
    lines = talk.proxy.services.metrics.render().decode().splitlines()
    found = (line for line in lines if line.startswith(f"chat_proxy_{name}{{"))
    return {line[line.index("{") : line.index("}") + 1]: float(line.split()[-1]) for line in found}


async def ridden(**fields: Any) -> SummaryModel:
    """Let a conversation with such fields grow until it needs a summary."""
    brain = SummaryModel(window=LARGE_WINDOW)
    async with talking(brain, window=LARGE_WINDOW) as talk:
        talk.fields.update(fields)
        for count in range(32, 52):
            if not brain.summaries:
                await talk.ask(long_chat(count))
    return brain


@pytest.mark.parametrize("choice", [{}, {"tool_choice": "auto"}, {"tool_choice": ALLOWED}], ids=str)
async def test_a_ride_is_cached_by_a_server_that_leaves_tools_out_for_none(choice: Fields) -> None:
    """SGLang caches 7 % instead of 99 % of a prompt whose `tool_choice` was changed to "none"."""
    brain = await ridden(tools=TOOLS, **choice)

    (question,) = brain.summaries
    assert question.fields.get("tool_choice") == choice.get("tool_choice")
    assert ("tool_choice" in question.fields) is bool(choice)
    assert question.fields["tools"] == TOOLS
    assert cached_share(question, brain) >= 0.9


async def test_a_client_that_forbids_calls_itself_is_followed() -> None:
    brain = await ridden(tools=TOOLS, tool_choice="none")

    assert brain.summaries[0].fields["tool_choice"] == "none"
    assert cached_share(brain.summaries[0], brain) >= 0.9


@pytest.mark.parametrize(
    "choice",
    [
        {"tools": TOOLS, "tool_choice": "required"},
        {"tools": TOOLS, "tool_choice": NAMED},
        {
            "tools": TOOLS,
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required"}},
        },
        {"functions": [TOOLS[0]["function"]], "function_call": {"name": "read"}},
    ],
    ids=["required", "named", "allowed", "function"],
)
async def test_a_request_that_must_call_a_tool_is_not_ridden_on(choice: Fields) -> None:
    """Its answer would be a call, and without the choice it would be another prompt."""
    brain = SummaryModel(window=WINDOW)
    async with talking(brain) as talk:
        talk.fields.update(choice)
        asked = await talk.ask(conversation(0))

    assert label(asked) == "built"
    assert shapes(brain) == ["transcript"]
    assert not set(choice) & set(brain.summaries[0].fields)


async def test_a_ride_that_is_answered_with_a_call_is_followed_by_a_transcript() -> None:
    """BUGS 25: a transcript has no tools, so nothing can be called."""
    brain = reporting(None)
    assert brain.telling
    brain.telling = in_turn(calling, brain.telling)
    async with talking(brain) as talk:
        talk.fields["tools"] = TOOLS
        asked = await talk.ask(conversation(0))
        failures = figures(talk, "summaries_fail_total")

    assert label(asked) == "built"
    assert shapes(brain) == ["ride", "transcript"]
    assert not any(failures.values())


async def test_where_rides_are_hardly_cached_transcripts_follow() -> None:
    brain = reporting(0.07)
    with listening() as log:
        async with talking(brain) as talk:
            asked = [await talk.ask(conversation(number)) for number in range(4)]
            switches = figures(talk, "ride_switches_total")
            cached = figures(talk, "side_query_tokens_total")['{kind="cached"}']
        lines = [json.loads(line) for line in log.stream.getvalue().splitlines()]

    told = [line for line in lines if line["message"].startswith("rides are hardly cached")]
    assert [label(it) for it in asked] == ["built"] * 4
    assert shapes(brain) == ["ride", "ride", "transcript", "transcript"]
    assert switches == {'{shape="transcript"}': 1}
    assert [(line["model"], line["cached_share"]) for line in told] == [("fake", 0.07)]
    assert cached > 0


@pytest.mark.parametrize("share", [0.99, 0.55, None])
async def test_elsewhere_and_where_nothing_is_known_rides_go_on(share: float | None) -> None:
    brain = reporting(share)
    async with talking(brain) as talk:
        for number in range(4):
            await talk.ask(conversation(number))

    assert shapes(brain) == ["ride"] * 4


async def test_originals_behind_the_prompt_do_not_count_as_uncached() -> None:
    """They are new to every cache; the prompt before them is in it."""
    shares: list[float] = []

    async def tell(question: Question, line: Line) -> None:
        cached = question.tokens - tokenizer().count(question.texts[-1])
        shares.append(cached / question.tokens)
        await answer(question, line, written(chosen(question)), cached_tokens=cached)

    brain = SummaryModel(tell, window=LARGE_WINDOW)
    async with talking(brain, window=LARGE_WINDOW, tools={"max_bytes": 1_000}) as talk:
        for number in range(3):
            steps = [step(f"{number}{n}", output(700, 10 * number + n)) for n in range(8)]
            later = [says("Found."), user("Thanks."), says("Well."), user("/compact")]
            history = [SYSTEM, user("Find it."), *chain(*steps), *later]
            answered = await post(talk.line, body_of(history))
            assert b"Compact Complete!" in answered.body

    assert shapes(brain) == ["ride"] * 3
    assert max(shares) < 0.5
