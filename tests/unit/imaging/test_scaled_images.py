"""Scaled images are made once, kept by tenant and content, and never twice at the same time."""

import asyncio
import base64
import io
from typing import Any

import pytest

from chat_proxy.imaging import scale, scaled_images
from chat_proxy.imaging.scaled_images import ScaledImages

Image: Any = pytest.importorskip("PIL.Image")
pytestmark = pytest.mark.anyio


def picture(width: int = 800) -> str:
    written = io.BytesIO()
    Image.new("RGB", (width, 600), "navy").save(written, "PNG")
    return base64.b64encode(written.getvalue()).decode()


class Reports(list[str]):
    def __call__(self, result: str) -> None:
        self.append(result)


async def test_an_image_is_scaled_once_and_then_reused() -> None:
    reports = Reports()
    images = ScaledImages(reports)

    first = await images.scale("ann", [(picture(), 400), (picture(), 400)])
    again = await images.scale("ann", [(picture(), 400)])

    assert first == again
    assert reports == ["scaled", "reused"]


async def test_the_same_image_at_the_same_time_is_scaled_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []

    def counting(image: str, side: int) -> Any:
        made.append(side)
        return scale.scaled_image(image, side)

    monkeypatch.setattr(scaled_images, "scaled_image", counting)
    images = ScaledImages()

    await asyncio.gather(*(images.scale("ann", [(picture(), 400)]) for _ in range(5)))

    assert made == [400]


async def test_another_tenant_finds_nothing() -> None:
    reports = Reports()
    images = ScaledImages(reports)

    await images.scale("ann", [(picture(), 400)])
    await images.scale("bob", [(picture(), 400)])

    assert reports == ["scaled", "scaled"]


async def test_a_refused_image_is_not_tried_again() -> None:
    reports = Reports()
    images = ScaledImages(reports)

    for side in (400, 300):
        assert await images.scale("ann", [("AAAA", side)]) == {("AAAA", side): None}

    assert reports == ["refused"]
    assert images.is_refused("ann", "AAAA")
    assert not images.is_refused("bob", "AAAA")


async def test_without_pillow_nothing_is_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaled_images, "is_available", lambda: False)
    reports = Reports()

    found = await ScaledImages(reports).scale("ann", [(picture(), 400)])

    assert found == {(picture(), 400): None}
    assert reports == []


async def test_what_is_evicted_is_scaled_again_to_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scaled_images, "MAX_CACHED_BYTES", 10)
    images = ScaledImages()

    one = await images.scale("ann", [(picture(), 400)])

    assert await images.scale("ann", [(picture(), 400)]) == one
