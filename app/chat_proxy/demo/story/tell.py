"""The demo's story: a long conversation with tools and images, sent request by request."""

import asyncio
import importlib
import json
import textwrap
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

import httpx

from chat_proxy.demo.model.messages import as_dict, as_list, as_text, read_call
from chat_proxy.demo.story.script import SYSTEM, TOOLS, Turn, log_of, plain_turns, turns
from chat_proxy.demo.story.table import Table, Told

MODEL = "demo"
MAX_TOKENS = 40
REQUEST_SECONDS = 300.0
LOOK_SECONDS = 0.1
REASON_CHARS = 400


class StoryFailed(Exception):
    """The story cannot continue."""


@dataclass(frozen=True)
class Reply:
    """The headers and the message of an answer."""

    headers: Mapping[str, str]
    message: dict[str, object]

    @classmethod
    def of(cls, headers: Mapping[str, str], body: str) -> "Reply":
        """Read an answer, or raise StoryEnds if it has no message."""
        try:
            choices = as_list(as_dict(json.loads(body)).get("choices"))
        except ValueError:
            choices = []
        message = as_dict(as_dict(choices[0] if choices else None).get("message"))
        if not message:
            raise StoryFailed("the proxy's answer has no message")
        return cls(headers, message)


class Client(Protocol):
    """A client that sends chat requests to the proxy."""

    async def ask(self, fields: dict[str, Any]) -> Reply:
        """Return the answer, or raise StoryEnds."""
        ...


@dataclass(frozen=True)
class SdkClient:
    """A client that uses OpenAI's SDK, as most users do."""

    sdk: Any
    client: Any

    async def ask(self, fields: dict[str, Any]) -> Reply:
        """Return the answer, or raise StoryEnds."""
        try:
            raw = await self.client.chat.completions.with_raw_response.create(**fields)
        except self.sdk.OpenAIError as error:
            raise StoryFailed(str(error)) from error
        return Reply.of(raw.headers, raw.text)


@dataclass(frozen=True)
class PlainClient:
    """A client without the SDK."""

    url: str
    api_key: str
    client: httpx.AsyncClient

    async def ask(self, fields: dict[str, Any]) -> Reply:
        """Return the answer, or raise StoryEnds."""
        headers = {"authorization": f"Bearer {self.api_key}"}
        try:
            answer = await self.client.post(
                f"{self.url}/chat/completions", json=fields, headers=headers
            )
        except httpx.HTTPError as error:
            raise StoryFailed(str(error) or type(error).__name__) from error
        if answer.status_code != 200:
            said = message_of(answer.text)
            raise StoryFailed(f"the proxy answered with status {answer.status_code}: {said}")
        return Reply.of(answer.headers, answer.text)


@dataclass(frozen=True)
class Stage:
    """What the story needs: the root URL of the proxy, a key for it, and the model's window."""

    root: str
    api_key: str
    window: int
    has_dashboard: bool = True
    model: str = MODEL


class Story:
    """A conversation that grows turn by turn, like the history of a client."""

    def __init__(self, client: Client, table: Table, window: int, model: str = MODEL) -> None:
        self._client = client
        self._table = table
        self._window = window
        is_demo = model == MODEL
        self._turns = turns(window) if is_demo else plain_turns(window)
        self._fields: dict[str, Any] = {"model": model, **({"tools": TOOLS} if is_demo else {})}
        self._messages: list[dict[str, object]] = [{"role": "system", "content": SYSTEM}]

    async def tell(self) -> None:
        """Send all turns."""
        self._table.begin(self._window)
        for number, turn in enumerate(self._turns, 1):
            self._messages.append(turn.message())
            await self._answer(number, turn.short)
            if self._run_tools(turn):
                await self._answer(number, "  its result")
        self._table.end()

    async def _answer(self, number: int, what: str) -> None:
        """Send the whole history, as clients do, and append the answer to it."""
        self._table.waiting(number, what)
        started = time.perf_counter()
        fields = {**self._fields, "messages": self._messages, "max_tokens": MAX_TOKENS}
        reply = await self._client.ask(fields)
        seconds = time.perf_counter() - started
        self._table.answered(number, what, Told.by(reply.headers), seconds)
        self._messages.append({k: v for k, v in reply.message.items() if v is not None})

    def _run_tools(self, turn: Turn) -> bool:
        """Append a result for each call in the newest answer; return whether there is one."""
        calls = [read_call(call) for call in as_list(self._messages[-1].get("tool_calls"))]
        for call in calls:
            path = as_text(_arguments(call.arguments).get("path"))
            content = log_of(path, turn.log_lines)
            self._messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
        return bool(calls)


def message_of(body: str) -> str:
    """Return the message of an error, or the whole body if it has none."""
    try:
        error = as_dict(json.loads(body)).get("error")
    except ValueError:
        error = None
    return as_text(as_dict(error).get("message")) or body


def run_story(stage: Stage, out: TextIO, is_up: Callable[[], bool]) -> None:
    """Run the story while the proxy is up and the output is open."""
    with suppress(OSError, ValueError):  # the output is closed
        asyncio.run(_tell_while_up(stage, Table(out), is_up))


async def _tell_while_up(stage: Stage, table: Table, is_up: Callable[[], bool]) -> None:
    """Cancel the running request when the proxy stops, so that its drain need not wait for it."""
    story = asyncio.create_task(_tell(stage, table))
    while not story.done() and is_up():
        await asyncio.wait({story}, timeout=LOOK_SECONDS)
    story.cancel()
    try:
        await story
    except asyncio.CancelledError:
        return
    except StoryFailed as end:
        if is_up():
            reason = textwrap.shorten(str(end), REASON_CHARS, placeholder=" …").rstrip(".")
            table.say(f"chat-proxy demo: the story ends early: {reason}; the proxy stays up.")


async def _tell(stage: Stage, table: Table) -> None:
    async with httpx.AsyncClient(trust_env=False, timeout=REQUEST_SECONDS) as http:
        await _wait_for(stage, http)
        client = make_client(f"{stage.root}/v1", stage.api_key, http)
        await Story(client, table, stage.window, stage.model).tell()
    if stage.has_dashboard:
        table.say(f"See all requests on {stage.root}/dashboard")
    table.say("The proxy stays up; Ctrl-C stops it.")


async def _wait_for(stage: Stage, http: httpx.AsyncClient) -> None:
    """Wait until the proxy serves: slow imports must not delay its start."""
    try:
        await http.get(f"{stage.root}/healthz")
    except httpx.HTTPError as error:
        raise StoryFailed(str(error) or type(error).__name__) from error


def make_client(url: str, api_key: str, http: httpx.AsyncClient) -> Client:
    """Return an SDK client if the SDK is installed, else a plain one."""
    try:
        # The import takes a second, and only the story needs it.
        sdk = importlib.import_module("openai")
    except ImportError:
        return PlainClient(url, api_key, http)
    client = sdk.AsyncOpenAI(base_url=url, api_key=api_key, http_client=http, max_retries=0)
    return SdkClient(sdk, client)


def _arguments(text: str) -> dict[str, object]:
    try:
        return as_dict(json.loads(text))
    except ValueError:
        return {}
