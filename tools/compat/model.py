"""A model server that follows a script of tool calls, counts its prompts and refuses long ones."""

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from chat_proxy.chat.message import Message
from chat_proxy.demo.apis.messages import MessagesAnswer
from chat_proxy.demo.apis.responses import ResponsesAnswer
from chat_proxy.demo.model.answers import Choice, Completion
from chat_proxy.demo.model.messages import Call
from tests.support.fake_model import DONE, Line, Received, answer_json, begin_stream, event
from tests.support.strict_template import complaints
from tests.support.summary_model import Question, chosen, overflow, written
from tests.support.wire_model import PATHS as WIRE_PATHS
from tests.support.wire_model import named
from tools.compat.own_limit import OwnLimit, is_folded
from tools.compat.wires.question import WireQuestion, images_in

NAME = "scripted"
CHAT = WIRE_PATHS["chat"]
PATHS = frozenset(WIRE_PATHS.values())
NUMBERS = count(1)
ASIDE = Choice("A short title", tokens=3)
WORDS_OF_A_LONG_STORY = 1_200
SECONDS_PER_WORD = 0.05


@dataclass
class Script:
    """What the model says, step by step, and how it ends; what it saw is kept beside."""

    steps: tuple[Choice, ...]
    words: Choice
    farewell: Choice
    endless: bool = False
    taken: int = 0
    images: int = 0
    refused: int = 0
    own_limit: OwnLimit | None = None
    own_ids: list[str] = field(default_factory=list)
    """The ids of the requests by which the client compacts its conversation itself."""
    side_query_ids: list[str] = field(default_factory=list)
    """The ids of the requests on whose behalf the proxy asked for summaries."""
    folded: int = 0
    broken: list[str] = field(default_factory=list)
    speaking: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    def next(self, question: Question) -> Choice:
        """Return the next step's answer; what an agent asks beside its main loop moves nothing."""
        with_tools = bool(question.fields.get("tools"))
        if not with_tools and any(step.calls for step in self.steps):
            return ASIDE
        self.images += images_of(question)
        if self.taken == len(self.steps):
            return self.farewell if with_tools else self.words
        self.taken += 1
        return self.steps[self.taken - 1]

    def asks_to_compact(self, question: Question) -> bool:
        """Whether the client itself asks for a summary of its conversation."""
        own = self.own_limit
        messages = question.fields["messages"]
        return own is not None and bool(messages) and own.is_in(messages[-1])

    def compacted(self, question: Question) -> Choice:
        """Count a client's own compaction request and return the summary that it wants."""
        assert self.own_limit is not None
        self.own_ids.append(question.received.header("x-request-id") or "")
        self.folded += is_folded(question.fields)
        return Choice(self.own_limit.answer, tokens=120)

    @property
    def double(self) -> int:
        """How many side-queries the proxy made for a client's own compaction."""
        own = set(self.own_ids)
        return sum(name in own for name in self.side_query_ids)

    def summarised(self, question: Question) -> Choice:
        """Note for which request the proxy makes a side-query, and return the summary."""
        self.side_query_ids.append(question.received.header("x-request-id") or "unknown")
        return Choice(written(chosen(question)), tokens=200)


def tool_calls(number: int, *calls: tuple[str, str]) -> Choice:
    """A step that calls tools, each given as its name and its arguments."""
    made = tuple(
        Call(f"call_{number:03d}_{index}", name, arguments)
        for index, (name, arguments) in enumerate(calls)
    )
    return Choice(f"Step {number}.", made, "tool_calls", 20)


@dataclass
class ScriptedModel:
    """A server's behaviour: it keeps to its script and to its window, as vLLM does."""

    window: int
    script: Script

    async def __call__(self, received: Received, line: Line) -> None:
        path = received.target.partition("?")[0]
        if received.method == "POST" and path not in PATHS:
            await answer_json(line, {"detail": "Not Found"}, 404)
            return
        if received.method != "POST":
            card = {"id": NAME, "object": "model", "owned_by": "vllm"}
            cards = [card | {"max_model_len": self.window}]
            await answer_json(line, {"object": "list", "data": cards})
            return
        is_chat = path == CHAT
        await self._chat(Question(received) if is_chat else WireQuestion(received), line)

    async def _chat(self, question: Question, line: Line) -> None:
        self.script.broken += orphans(question)
        output = question.output if isinstance(question, WireQuestion) else 0
        if question.tokens + output >= self.window:
            self.script.refused += 1
            await answer_json(line, overflow(self.window), 400)
        elif question.is_summary:
            await say(question, self.script.summarised(question), line)
        elif self.script.asks_to_compact(question):
            await say(question, self.script.compacted(question), line)
        elif self.script.endless:
            await self._speak_until_left(question, line)
        else:
            await say(question, self.script.next(question), line)

    async def _speak_until_left(self, question: Question, line: Line) -> None:
        script = self.script
        if await first_of(line.until_closed(), ramble(question, line, script.speaking)):
            script.left.set()


def images_of(question: Question) -> int:
    """Return how many images a request has."""
    if isinstance(question, WireQuestion):
        return images_in(question.own_fields)
    return sum(len(list(Message(fields).media())) for fields in question.messages)


def orphans(question: Question) -> list[str]:
    """Return which tool calls and results of the request have lost each other."""
    if isinstance(question, WireQuestion):
        return question.complaints
    found = complaints(question.messages, allow_late_system=True, allow_user_after_tools=True)
    return [complaint for complaint in found if "result" in complaint]


async def say(question: Question, choice: Choice, line: Line) -> None:
    """Answer in one piece, or word by word with usage if that is asked for."""
    if isinstance(question, WireQuestion):
        await say_on_wire(question, choice, line)
        return
    completion = Completion("chatcmpl-1", 1, NAME, question.tokens, (choice,))
    if not question.fields.get("stream"):
        await answer_json(line, completion.whole())
        return
    await begin_stream(line)
    for chunk in (*completion.opening(), *completion.words()):
        await line.chunk(event(chunk))
    if (question.fields.get("stream_options") or {}).get("include_usage"):
        await line.chunk(event(completion.usage_chunk()))
    await line.chunk(DONE)
    await line.chunk(b"")


def answer_to(question: WireQuestion, choice: Choice) -> ResponsesAnswer | MessagesAnswer:
    """Return an answer in the form of the request's API."""
    form = ResponsesAnswer if "input" in question.own_fields else MessagesAnswer
    return form(Completion(str(next(NUMBERS)), 1, NAME, question.tokens, (choice,)))


async def say_on_wire(question: WireQuestion, choice: Choice, line: Line) -> None:
    """Answer in the form of the request's API."""
    answer = answer_to(question, choice)
    if not question.fields.get("stream"):
        await answer_json(line, answer.whole())
        return
    await begin_stream(line)
    for document in answer.events():
        await line.chunk(named(document))
    await line.chunk(b"")


def events_of(question: Question, choice: Choice) -> Iterator[bytes]:
    """Yield an answer as events, without its end."""
    if isinstance(question, WireQuestion):
        yield from map(named, answer_to(question, choice).events())
        return
    story = Completion("chatcmpl-1", 1, NAME, question.tokens, (choice,))
    yield from map(event, (*story.opening(), *story.words()))


async def ramble(question: Question, line: Line, speaking: asyncio.Event) -> None:
    """Tell a story that takes a minute; a client that wants it whole hears nothing meanwhile."""
    if question.fields.get("stream"):
        await begin_stream(line)
    for chunk in events_of(question, Choice("and so on " * WORDS_OF_A_LONG_STORY)):
        if question.fields.get("stream"):
            await line.chunk(chunk)
        await asyncio.sleep(SECONDS_PER_WORD)
        speaking.set()


async def first_of(one: Awaitable[Any], other: Awaitable[Any]) -> bool:
    """Wait for whichever ends first and leave the other; say whether it was the first of them."""
    tasks = [asyncio.ensure_future(one), asyncio.ensure_future(other)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0] in done or isinstance(tasks[1].exception(), ConnectionError)
    finally:
        for task in tasks:
            task.cancel()
