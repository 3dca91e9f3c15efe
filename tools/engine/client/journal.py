"""A conversation by one API, with what the engine got of it: prompts, refusals, waits."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from chat_proxy.compaction.summary.prompt import SHORT_INSTRUCTION
from tools.engine.client.asking import Answer, Asker, asking_by_a_proxy
from tools.engine.client.conversing import Run
from tools.engine.client.talk import TOOLS, Talk, answered
from tools.engine.client.wires import OWN, Fields, Messages, WireForm
from tools.engine.install import FOLDER
from tools.engine.progress import tell
from tools.engine.serving import Engine
from tools.small_model.exchanges import Exchange
from tools.small_model.figures import Metrics
from tools.small_model.recorder import Recorder, recording

NO_SETTINGS: Final[Mapping[str, str]] = {}


@dataclass
class Journal:
    """What became of a conversation, turn by turn."""

    form: WireForm
    run: Run = field(default_factory=Run)
    seconds_added: list[float] = field(default_factory=list)
    """What the proxy added to each request, without the time that the engine had it."""
    exchanges: Sequence[Exchange] = ()
    metrics: Metrics = field(default_factory=lambda: Metrics(""))
    known_window: str = ""

    @property
    def chats(self) -> list[Exchange]:
        return [it for it in self.exchanges if not it.is_summary]

    @property
    def summaries(self) -> list[Exchange]:
        return [it for it in self.exchanges if it.is_summary]

    @property
    def refusals(self) -> int:
        """The prompts that the engine refused."""
        return sum(it.status >= 400 for it in self.chats)

    @property
    def last_prompt(self) -> Exchange:
        return self.chats[-1]


@dataclass(frozen=True)
class Desk:
    """A client before the proxy, before a recorder, before the engine."""

    asker: Asker
    recorder: Recorder

    async def converse(
        self,
        turns: Iterable[Messages],
        system: Fields,
        *,
        max_tokens: int,
        words: Talk | None,
        with_tools: bool = True,
    ) -> Journal:
        """Hold a conversation, every second turn streamed; an error is kept and it goes on.

        With `words`, the history has words in the place of what the model says.
        """
        journal = Journal(self.asker.form)
        history: Messages = [system]
        tools = TOOLS if with_tools else []
        clock = asyncio.get_running_loop().time
        for number, added in enumerate(turns):
            tell(f"{self.asker.form.name}: turn {number + 1}")
            history += added
            before, began = len(self.recorder.exchanges), clock()
            answer = await self.asker.ask(
                history, max_tokens=max_tokens, streams=number % 2 == 1, tools=tools
            )
            had = sum(it.seconds for it in self.recorder.exchanges[before:] if not it.is_summary)
            journal.seconds_added.append(max(0.0, clock() - began - had))
            journal.run.answers.append(answer)
            history.append(_remembered(answer, words.prose(20) if words else answer.text))
        journal.exchanges = list(self.recorder.exchanges)
        journal.metrics = Metrics((await self.asker.client.get("/metrics")).text)
        journal.known_window = await self.known_window(history)
        return journal

    async def known_window(self, history: Messages) -> str:
        """Return the window that the proxy knows, and from where."""
        body: dict[str, Any] = {
            "model": self.asker.model,
            **self.asker.form.body([*history, {"role": "user", "content": "And now?"}], 16, ()),
        }
        explained = (await self.asker.client.post("/v1/chat/explain", json=body)).json()
        return "{tokens} ({source})".format(**explained["window"])


@asynccontextmanager
async def desk_before(
    engine: Engine,
    form: WireForm,
    settings: Mapping[str, str] = NO_SETTINGS,
    *,
    hides_listing: bool = False,
    by_transcript: bool = False,
) -> AsyncIterator[Desk]:
    """Run a fresh proxy and a recorder before the engine, and connect a client of one API.

    With `by_transcript` the engine's model is configured as a summary model, as an operator would
    do it for a small one: it gets a transcript with the short instruction, and time.
    """
    async with recording(engine.url) as recorder:
        recorder.hides_listing = hides_listing
        if by_transcript:
            settings = {**settings, **_short_summaries(recorder.url, engine.model)}
        async with asking_by_a_proxy(recorder.url, engine.model, **settings) as plain:
            yield Desk(replace(plain, form=form, exactly=engine.kind == "vllm"), recorder)


def _short_summaries(url: str, model: str) -> dict[str, str]:
    """Return the settings of a small summary model; another name of the host is another server."""
    prompt = FOLDER / "short_instruction.txt"
    prompt.write_text(SHORT_INSTRUCTION)
    return {
        "SUMMARY_BASE_URL": url.replace("127.0.0.1", "localhost"),
        "SUMMARY_MODEL": model,
        "SUMMARY_PROMPT_FILE": str(prompt),
        "SUMMARY_MAX_TOKENS": "96",
        "SUMMARY_TIMEOUT_SECONDS": "120",
    }


def _remembered(answer: Answer, text: str) -> Fields:
    """Return an answer as its client keeps it: the server's own items, perhaps with other words."""
    message = answered(text or "(nothing)")
    if answer.own and text and all(item.get("type") == "message" for item in answer.own):
        first = answer.own[0]
        part = {**first["content"][0], "text": text}
        message[OWN] = [{**first, "content": [part]}]
    return message
