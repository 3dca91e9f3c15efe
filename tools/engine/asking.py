"""A client of the engine, or of the proxy before it, that keeps what an answer tells."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from tests.support.command import running_command
from tools.engine.serving import Engine

Messages = list[dict[str, Any]]


@dataclass(frozen=True)
class Answer:
    """What came back for one chat."""

    status: int
    text: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def compaction(self) -> str:
        return self.headers.get("x-chat-proxy-compaction", "")

    @property
    def stages(self) -> list[str]:
        return self.headers.get("x-chat-proxy-stages", "").split(",")

    @property
    def estimate(self) -> int:
        """The proxy's own count of what it sent."""
        return int(self.headers.get("x-chat-proxy-tokens-after", "0"))

    @property
    def counting_error(self) -> float:
        """How far that was from the engine's count, as a share."""
        return abs(self.estimate - self.prompt_tokens) / self.prompt_tokens

    @classmethod
    def of(cls, status: int, headers: httpx.Headers, body: str) -> Self:
        """Read an answer, streamed or whole."""
        if status != 200:
            return cls(status, body, headers=dict(headers))
        documents = list(_documents(body))
        usage: dict[str, Any] = next(
            (said["usage"] for said in reversed(documents) if said.get("usage")), {}
        )
        details = usage.get("prompt_tokens_details") or {}
        return cls(
            status,
            "".join(map(_words, documents)),
            usage.get("prompt_tokens", 0),
            details.get("cached_tokens") or 0,
            dict(headers),
        )


@dataclass(frozen=True)
class Asker:
    """Someone who asks one model."""

    client: httpx.AsyncClient
    model: str

    async def ask(
        self, messages: Messages, *, max_tokens: int = 24, streams: bool = False, **fields: Any
    ) -> Answer:
        """Ask for so many tokens exactly; the answer is read to its end."""
        body = {
            "model": self.model,
            "messages": messages,
            "max_tokens": max_tokens,
            "ignore_eos": True,
            "seed": len(messages),
            **({"stream": True, "stream_options": {"include_usage": True}} if streams else {}),
            **fields,
        }
        answer = await self.client.post("/v1/chat/completions", json=body)
        return Answer.of(answer.status_code, answer.headers, answer.text)


@asynccontextmanager
async def asking(url: str, model: str) -> AsyncIterator[Asker]:
    """Connect someone who asks."""
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=180) as client:
        yield Asker(client, model)


@asynccontextmanager
async def asking_through_the_proxy(engine: Engine, **variables: str) -> AsyncIterator[Asker]:
    """Run the proxy before the engine, as a process of its own, and connect someone to it."""
    chosen = {"UPSTREAM_BASE_URL": f"{engine.url}/v1", "STORE_URL": "memory:", **variables}
    async with (
        running_command("serve", **chosen) as proxy,
        asking(await proxy.url(), engine.model) as asker,
    ):
        yield asker


def _documents(body: str) -> Iterator[dict[str, Any]]:
    if not body.startswith("data:"):
        yield json.loads(body)
        return
    for line in body.splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def _words(document: dict[str, Any]) -> str:
    said = (choice.get("message") or choice.get("delta") or {} for choice in document["choices"])
    return "".join(part.get("content") or "" for part in said)
