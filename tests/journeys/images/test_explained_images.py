"""Explain tells what each image is counted, and what would be done to it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.images.photos import VisionServer, asks, looking, photo
from tests.support.live import chat_body, chat_request
from tests.unit.chat.shapes import Fields, says, system, user

pytest.importorskip("PIL")
pytestmark = pytest.mark.anyio

KEPT = {"change": "kept", "size": [800, 600], "tokens": 611}


async def explained(
    folder: Path, messages: list[Fields], window: int = 8_192, **sections: Any
) -> list[dict[str, Any]]:
    async with looking(VisionServer(window), folder, **sections) as met:
        request = chat_request(chat_body(messages=messages))
        await met.client.send(request.replace(b"/completions", b"/explain", 1))
        answer = await met.client.answer()
    assert answer.status == 200
    images: list[dict[str, Any]] = json.loads(answer.body)["images"]
    return images


async def test_an_image_is_told_with_family_size_and_tokens(tmp_path: Path) -> None:
    [image] = await explained(tmp_path, [system(), asks("Look", photo(800, 600))])

    assert (image["message"], image["number"], image["mime"]) == (1, 0, "image/jpeg")
    assert (image["family"], image["size"], image["tokens"]) == ("qwen2-vl", [800, 600], 611)
    assert image["after"] == KEPT


async def test_a_large_image_is_told_with_its_smaller_form(tmp_path: Path) -> None:
    [image] = await explained(tmp_path, [asks("Look", photo())])

    assert image["tokens"] == 15_303
    assert image["after"]["change"] == "scaled"
    assert image["after"]["tokens"] < 8_192


async def test_images_that_leave_the_prompt_are_told(tmp_path: Path) -> None:
    first, second = asks("One", photo(800, 600)), asks("Two", photo(800, 600, seed=1))
    dropped, kept = await explained(tmp_path, [first, says("A."), second])
    history = [first, says("A."), second, says("B."), user("And?")]
    noted, shown = await explained(tmp_path, history, window=1_700)

    assert dropped["after"] == {"change": "dropped", "size": None, "tokens": 0}
    assert kept["after"] == KEPT
    assert noted["after"]["change"] == "noted"
    assert shown["after"]["change"] in ("kept", "scaled")


async def test_a_request_without_images_tells_of_none(tmp_path: Path) -> None:
    assert await explained(tmp_path, [user("Hi")]) == []
