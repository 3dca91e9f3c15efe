"""The user of the chat: sends its whole history with every request, as chat front ends do."""

import asyncio
from dataclasses import dataclass, field

import httpx

from tools.engine.client.asking import Answer
from tools.engine.client.talk import answered
from tools.engine.client.wires import Messages
from tools.engine.progress import tell
from tools.small_model.exchanges import Exchange
from tools.small_model.recorder import Recorder
from tools.small_model.serve import MODEL
from tools.small_model.story import SYSTEM


@dataclass(frozen=True)
class Turn:
    """One request of the user, and what became of it at the server."""

    sent: float
    ended: float
    answer: Answer
    exchanges: list[Exchange]
    fitted: bool
    """Whether the prompt before it, with what was said since, left space for the answer."""

    @property
    def is_answered(self) -> bool:
        return self.answer.status == 200

    @property
    def prompt_tokens(self) -> int:
        """The server's count of the prompt that it answered."""
        return self.exchanges[-1].prompt_tokens if self.exchanges else 0

    @property
    def label(self) -> str:
        """What the proxy says that it did with the request."""
        return self.answer.compaction or str(self.answer.status)

    @property
    def seconds(self) -> float:
        """How long the user waited for the whole answer."""
        return self.ended - self.sent

    @property
    def upstream(self) -> float:
        """The seconds that the server had the request."""
        return sum(exchange.seconds for exchange in self.exchanges)

    @property
    def added(self) -> float:
        """The seconds of the request that the proxy added to those of the server."""
        return self.seconds - self.upstream


@dataclass
class Chat:
    """A chat, turn by turn."""

    history: Messages = field(default_factory=lambda: [SYSTEM])
    turns: list[Turn] = field(default_factory=list)

    @property
    def refused(self) -> list[Turn]:
        return [turn for turn in self.turns if not turn.is_answered]

    @property
    def last_prompt(self) -> Exchange:
        """The newest prompt that the model really got."""
        return self.turns[-1].exchanges[-1]


@dataclass(frozen=True)
class User:
    """Someone who talks to the proxy; the recorder shows what the server gets of it."""

    client: httpx.AsyncClient
    recorder: Recorder
    window: int
    max_tokens: int
    pause: float = 0.0
    """The seconds that the user needs to read and to write."""

    async def say(self, chat: Chat, text: str) -> None:
        """Send one more message, every second time for a stream, and keep the answer."""
        number = len(chat.turns)
        tell(f"turn {number + 1}")
        chat.history.append({"role": "user", "content": text})
        fitted = await self._fits(chat, text)
        turn = await self.send(chat.history, streams=number % 2 == 1, fitted=fitted)
        chat.turns.append(turn)
        chat.history.append(answered(turn.answer.text if turn.is_answered else "(no answer)"))
        await asyncio.sleep(self.pause)

    async def send(self, messages: Messages, *, streams: bool, fitted: bool) -> Turn:
        """Send a history as it is."""
        now = asyncio.get_running_loop().time
        before = len(self.recorder.exchanges)
        sent = now()
        answer = await self._ask(messages, streams=streams)
        ended = now()
        got = self.recorder.exchanges[before:]
        return Turn(sent, ended, answer, [it for it in got if not it.is_summary], fitted)

    async def _ask(self, messages: Messages, *, streams: bool) -> Answer:
        fields = {"stream": True, "stream_options": {"include_usage": True}} if streams else {}
        body = {
            "model": MODEL,
            "messages": messages,
            "max_tokens": self.max_tokens,
            "seed": len(messages),
            **fields,
        }
        answer = await self.client.post("/v1/chat/completions", json=body)
        return Answer.of(answer.status_code, answer.headers, answer.text)

    async def _fits(self, chat: Chat, text: str) -> bool:
        """Return whether the last prompt and what came after it fit, by the server's own count."""
        if not chat.turns:
            return True
        last = chat.last_prompt
        said = await self.recorder.count(f"<|im_start|>user\n{text}<|im_end|>\n")
        tokens = last.prompt_tokens + last.completion_tokens + said
        return tokens + self.max_tokens < self.window
