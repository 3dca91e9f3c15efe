"""What passed between the proxy and the server: prompts, answers, times; pure."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from chat_proxy.compaction.summary.prompt import SHORT_INSTRUCTION

SUMMARY = "summary"
REPAIR = "Your summary lacks these sections"
Style = Literal["sections", "sections again", "short"]


@dataclass
class Exchange:
    """One chat completion at the server; times are seconds of the event loop's clock."""

    request: dict[str, Any]
    purpose: str | None
    arrived: float
    began: float = 0.0
    ended: float = 0.0
    status: int = 0
    answer: bytes = b""

    @property
    def is_summary(self) -> bool:
        """Whether the proxy asks for itself."""
        return self.purpose == SUMMARY

    @property
    def texts(self) -> list[str]:
        """The texts of the prompt."""
        return [str(message.get("content") or "") for message in self.request.get("messages", ())]

    @property
    def style(self) -> Style:
        """How a summary is asked for."""
        instruction = self.texts[-1] if self.texts else ""
        if SHORT_INSTRUCTION in instruction:
            return "short"
        return "sections again" if instruction.startswith(REPAIR) else "sections"

    @property
    def seconds(self) -> float:
        """How long the server had it."""
        return self.ended - self.arrived

    @property
    def end(self) -> str:
        """Why the answer ended: the server's reason, its status, or that the proxy left."""
        for document in reversed(list(documents_in(self.answer))):
            for choice in document.get("choices") or ():
                if reason := choice.get("finish_reason"):
                    return str(reason)
        return str(self.status) if self.status >= 400 else "left"

    @property
    def prompt_tokens(self) -> int:
        """The server's count of the prompt; 0 if it did not answer."""
        return self._usage("prompt_tokens")

    @property
    def completion_tokens(self) -> int:
        """The server's count of its answer."""
        return self._usage("completion_tokens")

    def _usage(self, name: str) -> int:
        for document in reversed(list(documents_in(self.answer))):
            if usage := document.get("usage"):
                return int(usage.get(name) or 0)
        return 0


def documents_in(answer: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON documents of an answer, streamed or whole; none of one that broke off."""
    lines = answer.decode(errors="replace").splitlines()
    for line in lines:
        text = line.removeprefix("data: ")
        try:
            found = json.loads(text)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def seconds_behind(chat: Exchange, summaries: Iterable[Exchange]) -> float:
    """Return how long a chat waited for its first byte while the server worked on a summary."""
    overlaps = (
        min(chat.began or chat.ended, other.ended) - max(chat.arrived, other.arrived)
        for other in summaries
    )
    return max(0.0, *overlaps, 0.0)


def in_a_row(names: Iterable[str]) -> str:
    """Return names in order, each with how often it comes in a row."""
    return ", ".join(f"{name} {len(list(same))}" for name, same in groupby(names)) or "none"
