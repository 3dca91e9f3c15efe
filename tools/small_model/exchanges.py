"""What passed between the proxy and the server: prompts, answers, times; pure."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from chat_proxy.compaction.summary.prompt import SHORT_INSTRUCTION
from tools.engine.client.wires import CHAT, Said, WireForm

SUMMARY = "summary"
REPAIR = "Your summary lacks these sections"
_TEXT_FIELDS = ("content", "text", "output", "arguments", "tool_calls")
_REASONS = {
    "end_turn": "stop",
    "completed": "stop",
    "max_tokens": "length",
    "max_output_tokens": "length",
}
Style = Literal["sections", "sections again", "short"]


@dataclass
class Exchange:
    """One chat at the server, by any API; times are seconds of the event loop's clock."""

    request: dict[str, Any]
    purpose: str | None
    arrived: float
    began: float = 0.0
    ended: float = 0.0
    status: int = 0
    answer: bytes = b""
    form: WireForm = CHAT

    @property
    def is_summary(self) -> bool:
        """Whether the proxy asks for itself."""
        return self.purpose == SUMMARY

    @property
    def texts(self) -> list[str]:
        """The texts of the prompt."""
        fields = (self.request.get(name) for name in ("instructions", "system"))
        leading = [text_in(field) for field in fields if field]
        given = self.request.get("messages") or self.request.get("input") or ()
        return [*leading, *([given] if isinstance(given, str) else map(text_in, given))]

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
            if reason := next(filter(None, _reasons_in(document)), None):
                return _REASONS.get(reason, reason)
        return str(self.status) if self.status >= 400 else "left"

    @property
    def prompt_tokens(self) -> int:
        """The server's count of the prompt; 0 if it did not answer."""
        return self.said.prompt_tokens

    @property
    def completion_tokens(self) -> int:
        """The server's count of its answer."""
        for document in reversed(list(documents_in(self.answer))):
            holders = (document, document.get("response") or {})
            for usage in (holder.get("usage") or {} for holder in holders):
                if found := usage.get("completion_tokens") or usage.get("output_tokens"):
                    return int(found)
        return 0

    @property
    def said(self) -> Said:
        """What the server answered."""
        documents = list(documents_in(self.answer))
        return self.form.read(documents) if documents else Said()


def text_in(value: Any) -> str:
    """Return the text of a content, of a message or of an item, with the arguments of its calls."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(text_in, value)))
    if not isinstance(value, dict):
        return ""
    called = value.get("function") or {}
    parts = (*map(value.get, _TEXT_FIELDS), called.get("arguments"))
    if (used := value.get("input")) is not None:
        parts = (*parts, json.dumps(used, ensure_ascii=False))
    return text_in([part for part in parts if part])


def _reasons_in(document: dict[str, Any]) -> Iterator[str | None]:
    """Yield why an answer ended, as each API says it."""
    for choice in document.get("choices") or ():
        yield choice.get("finish_reason")
    yield document.get("stop_reason")
    delta = document.get("delta")
    yield delta.get("stop_reason") if isinstance(delta, dict) else None
    response = document.get("response") or document
    yield (response.get("incomplete_details") or {}).get("reason")
    if response.get("object") == "response" and response.get("status") != "in_progress":
        yield response.get("status")


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
