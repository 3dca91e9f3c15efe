"""A client of the engine, or of the proxy before it, that keeps what an answer tells."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from tests.support.command import Command, running_command
from tools.engine.client.wires import CHAT, Fields, Messages, WireForm
from tools.engine.serving import SECONDS_TO_START, Engine

FAILED = 599
"""The status of an answer that is an error although it began as a success."""


@dataclass(frozen=True)
class Answer:
    """What came back for one chat."""

    status: int
    text: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    own: tuple[Fields, ...] = ()
    """The items of the answer, where the API's clients send them back."""

    @property
    def compaction(self) -> str:
        return self.headers.get("x-chat-proxy-compaction", "")

    @property
    def stages(self) -> list[str]:
        return self.headers.get("x-chat-proxy-stages", "").split(",")

    @property
    def estimate(self) -> int:
        """The proxy's own count of what it sent."""
        return int(self.headers.get("x-chat-proxy-tokens-after", "0").removeprefix("~"))

    @property
    def counting_error(self) -> float:
        """How far that was from the engine's count, as a share."""
        return abs(self.estimate - self.prompt_tokens) / self.prompt_tokens

    @classmethod
    def of(cls, status: int, headers: httpx.Headers, body: str, form: WireForm = CHAT) -> Self:
        """Read an answer, streamed or whole."""
        if status != 200:
            return cls(status, body, headers=dict(headers))
        documents = list(_documents(body))
        if any(document.get("error") or document.get("type") == "error" for document in documents):
            return cls(FAILED, body, headers=dict(headers))
        said = form.read(documents)
        return cls(
            status, said.text, said.prompt_tokens, said.cached_tokens, dict(headers), said.own
        )


@dataclass(frozen=True)
class Asker:
    """Someone who asks one model by one API."""

    client: httpx.AsyncClient
    model: str
    form: WireForm = CHAT
    exactly: bool = True
    """Whether the answers shall have their maximum: the engine is told not to end before."""

    async def ask(
        self, messages: Messages, *, max_tokens: int = 24, streams: bool = False, **fields: Any
    ) -> Answer:
        """Ask for so many tokens; the answer is read to its end."""
        tools = fields.pop("tools", ())
        own = {"ignore_eos": True, "seed": len(messages)} if self.exactly else {}
        body = {
            "model": self.model,
            **self.form.body(messages, max_tokens, tools),
            **own,
            **(self.form.streaming() if streams else {}),
            **fields,
        }
        answer = await self.client.post(self.form.path, json=body)
        return Answer.of(answer.status_code, answer.headers, answer.text, self.form)


@asynccontextmanager
async def asking(url: str, model: str) -> AsyncIterator[Asker]:
    """Connect someone who asks."""
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=600) as client:
        yield Asker(client, model)


@asynccontextmanager
async def asking_through_the_proxy(engine: Engine, **variables: str) -> AsyncIterator[Asker]:
    """Run the proxy before the engine, as a process of its own, and connect someone to it."""
    async with asking_by_a_proxy(f"{engine.url}/v1", engine.model, **variables) as asker:
        yield asker


@asynccontextmanager
async def asking_by_a_proxy(base_url: str, model: str, **variables: str) -> AsyncIterator[Asker]:
    """Run the proxy before any server, and connect someone to it."""
    chosen = {"UPSTREAM_BASE_URL": base_url, "STORE_URL": "memory:", **variables}
    async with (
        running_command("serve", **chosen) as proxy,
        asking(await _address(proxy), model) as asker,
    ):
        yield asker


async def _address(proxy: Command) -> str:
    """Wait until the proxy serves: a machine that runs engines may be slow."""
    started = await proxy.said("server started", seconds=SECONDS_TO_START)
    return str(started[0]["address"])


def _documents(body: str) -> Iterator[dict[str, Any]]:
    if body.startswith("{"):
        yield json.loads(body)
        return
    for line in body.splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))
