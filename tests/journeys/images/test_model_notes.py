"""`VISION_NOTES=model`: the vision model is asked what an image shows, once, in the background."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from chat_proxy.proxy.session.images.image_notes import INSTRUCTION
from tests.journeys.images.photos import VisionServer, asks, looking, photo, tell
from tests.support.fake_model import Line, Received, answer_json
from tests.support.meeting import Meeting
from tests.unit.chat.shapes import Fields, says, system, user

pytestmark = pytest.mark.anyio

NOTES = {"notes": "model"}
SHOWN = "A tug with the number 417 pulls a barge. The sky is grey."


class DescribingServer(VisionServer):
    """Answers queries about images with a description, and all others as usual."""

    def __init__(self, window: int, told: str = SHOWN) -> None:
        super().__init__(window)
        self.told = told
        self.queries: list[Received] = []

    async def __call__(self, received: Received, line: Line) -> None:
        if INSTRUCTION.encode() not in received.body:
            await super().__call__(received, line)
            return
        self.queries.append(received)
        message = {"role": "assistant", "content": self.told}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        await answer_json(line, {"object": "chat.completion", "choices": [choice]})


def album(photos: int) -> list[Fields]:
    history: list[Fields] = [system("You help.")]
    for number in range(photos):
        shown = asks(f"Photo {number}", small(number))
        history += [shown, says("Nice.")]
    return history


def small(number: int) -> str:
    return photo(700, 500, seed=number)


async def until_noted(met: Meeting) -> None:
    """Wait until no query is pending."""
    notes = met.proxy.services.compaction.images.notes
    await asyncio.gather(*notes._pending.values())


@pytest.fixture(autouse=True)
def pillow() -> Any:
    """The photos of these tests are made with it."""
    return pytest.importorskip("PIL")


async def test_notes_are_the_models_words(tmp_path: Path) -> None:
    server = DescribingServer(4_096)
    async with looking(server, tmp_path, vision=NOTES) as met:
        await tell(met, [*album(4), user("And?")])
        await until_noted(met)
        await tell(met, [*album(8), user("Which was best?")])
        sent = json.dumps(server.prompts[-1])

    assert f"; it shows: {SHOWN}" in sent
    assert ("x-chat-proxy-purpose", "image-note") in server.queries[0].headers


async def test_each_image_is_asked_about_once(tmp_path: Path) -> None:
    server = DescribingServer(4_096)
    async with looking(server, tmp_path, vision=NOTES) as met:
        for question in ("One?", "Two?", "Three?"):
            await tell(met, [*album(4), user(question)])
            await until_noted(met)

    assert len(server.queries) == 4


async def test_a_note_does_not_change_when_the_model_answers_late(tmp_path: Path) -> None:
    """BUGS 44: what was decided is repeated, whatever is known by then."""
    server = DescribingServer(4_096)
    given = [*album(8), user("Which?")]
    async with looking(server, tmp_path, vision=NOTES) as met:
        await tell(met, given)
        await until_noted(met)
        await tell(met, [*given, says("The last."), user("Why?")])

    first, second = server.prompts
    assert "the assistant said: Nice." in json.dumps(first)
    assert second[: len(first)] == first


@pytest.mark.parametrize("told", ["", "<think>Hm"])
async def test_without_a_usable_answer_the_assistants_words_are_left(
    told: str, tmp_path: Path
) -> None:
    server = DescribingServer(4_096, told)
    async with looking(server, tmp_path, vision=NOTES) as met:
        await tell(met, [*album(4), user("And?")])
        await until_noted(met)
        answer = await tell(met, [*album(8), user("Which was best?")])

    assert answer.status == 200
    assert "message #1; " in json.dumps(server.prompts[-1])


async def test_by_default_nobody_is_asked(tmp_path: Path) -> None:
    server = DescribingServer(4_096)
    async with looking(server, tmp_path) as met:
        await tell(met, [*album(8), user("Which?")])

    assert server.queries == []
