"""A window that nobody tells: it is learned from the first refusal, by each API."""

from typing import Final

from tools.engine.client.asking import Answer
from tools.engine.client.journal import Desk, desk_before
from tools.engine.client.talk import SYSTEM, Talk, answered
from tools.engine.client.wires import FORMS, MESSAGES, Fields, Messages, WireForm
from tools.engine.findings import Finding, none_of, told
from tools.engine.scenarios.wires.turns import side_by_side
from tools.engine.serving import WINDOW, Engine

LONG_TURNS = 40
LARGE_OUTPUT = 5_000
_REFUSALS: Final = {
    "chat": "2048",
    "responses": '"context_length_exceeded"',
    "messages": '"prompt is too long: ',
}
"""What an API's clients look for in a refusal for length; by chat, the engine's own sentence."""


async def unknown_window(engine: Engine) -> list[Finding]:
    """Begin with a history of two windows, while the list of models cannot be had."""
    columns = [await _by(engine, form) for form in FORMS]
    return [*side_by_side(columns), *await _counted_by_the_client(engine)]


async def _by(engine: Engine, form: WireForm) -> list[Finding]:
    async with desk_before(engine, form, {"SUMMARY_MAX_TOKENS": "96"}, hides_listing=True) as desk:
        history = _long_history()
        first = await desk.asker.ask(history)
        refused = sum(it.status >= 400 for it in desk.recorder.exchanges if not it.is_summary)
        window = await desk.known_window(history)
        later = [await _later(desk, history, number) for number in range(3)]
        again = sum(it.status >= 400 for it in desk.recorder.exchanges if not it.is_summary)
    async with desk_before(engine, form) as desk:
        large = await _status_of_a_large_answer(desk)
        hopeless = await desk.asker.ask([SYSTEM, _user(Talk(62).prose(3_500))])
    words = _REFUSALS[form.name]
    known = window.startswith(f"{WINDOW} ")
    return [
        Finding("a history of two windows at first contact, no list of models",
                _told(first), "200", first.status == 200),
        told("… prompts that the engine refused before", refused),
        Finding("… window that the proxy knows then", window, f"{WINDOW}", known),
        none_of("… errors in the next three requests", sum(it.status != 200 for it in later)),
        none_of("… prompts of these that the engine refused", again - refused),
        Finding(f"an answer of up to {LARGE_OUTPUT:,} tokens asked for", large, "200",
                large.startswith("200")),
        Finding("one message of two windows: refused in the words of the API",
                f"{hopeless.status}", "400",
                hopeless.status == 400 and words in hopeless.text),
    ]  # fmt: skip


async def _later(desk: Desk, history: Messages, number: int) -> Answer:
    history += [answered("So it is."), *Talk(70 + number).question()]
    return await desk.asker.ask(history, streams=number % 2 == 1)


async def _counted_by_the_client(engine: Engine) -> list[Finding]:
    """Ask for the size of a history of two windows, as Claude Code does."""
    async with desk_before(engine, MESSAGES) as desk:
        body = {"model": engine.model, **MESSAGES.body(_long_history(), 16, ())}
        del body["max_tokens"]
        answer = await desk.asker.client.post("/v1/messages/count_tokens", json=body)
    told_tokens = answer.json().get("input_tokens", 0) if answer.status_code == 200 else 0
    return [
        Finding("`/v1/messages/count_tokens` for that history: tokens after compaction",
                f"{answer.status_code}: {told_tokens}", f"< {WINDOW}", 0 < told_tokens < WINDOW)
    ]  # fmt: skip


def _user(text: str) -> Fields:
    return {"role": "user", "content": text}


async def _status_of_a_large_answer(desk: Desk) -> str:
    """Ask for more tokens than the window has, and leave when the answer begins."""
    form, messages = desk.asker.form, [SYSTEM, *Talk(60).question()]
    fields = {**form.body(messages, LARGE_OUTPUT, ()), **form.streaming()}
    body = {"model": desk.asker.model, **fields}
    async with desk.asker.client.stream("POST", form.path, json=body) as answer:
        stages = answer.headers.get("x-chat-proxy-stages", "unchanged")
        return f"{answer.status_code} ({stages})"


def _told(answer: Answer) -> str:
    return f"{answer.status} ({','.join(answer.stages) or 'unchanged'})"


def _long_history() -> Messages:
    talk = Talk(61)
    turns = ([*talk.question(), answered(talk.prose(40))] for _ in range(LONG_TURNS))
    return [SYSTEM, *(message for turn in turns for message in turn), *talk.question()]
