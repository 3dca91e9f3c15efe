"""Images that do not fit are scaled down before any is removed, and always to the same bytes."""

from pathlib import Path

import pytest

from chat_proxy.compaction.media_notes import LEFT_OUT_NOTE
from chat_proxy.imaging import scaled_images
from tests.journeys.counting.pictures import png
from tests.journeys.images.photos import (
    VisionServer,
    asks,
    looking,
    photo,
    sizes_in,
    tell,
    tokens_of,
)
from tests.support.live import RawAnswer
from tests.unit.chat.shapes import Fields, says, system, user

pytest.importorskip("PIL")
pytestmark = pytest.mark.anyio

SYSTEM = system("You judge photos.")


def stages(answer: RawAnswer) -> list[str]:
    return [name for name in answer.headers.get("x-chat-proxy-stages", "").split(",") if name]


@pytest.mark.parametrize("window", [2_048, 8_192])
async def test_a_large_photo_is_answered_scaled_and_not_removed(
    window: int, tmp_path: Path
) -> None:
    """BUGS 17, 32: 15,303 tokens as it came."""
    server = VisionServer(window)
    async with looking(server, tmp_path) as met:
        answer = await tell(met, [SYSTEM, asks("Criticise it.", photo())])

    assert answer.status == 200
    assert server.refused == 0
    [size] = sizes_in(server.prompts[-1])
    assert abs(size.width / size.height - 4 / 3) < 0.01
    assert window * 0.4 < tokens_of(server.prompts[-1]) < window
    assert stages(answer) == ["scale_images"]


@pytest.mark.parametrize("window", [2_048, 8_192])
async def test_a_photo_that_the_upstream_refuses_is_scaled_too(window: int, tmp_path: Path) -> None:
    server = VisionServer(window)
    async with looking(server, tmp_path, window=100_000) as met:
        answer = await tell(met, [SYSTEM, asks("Criticise it.", photo())])

    assert answer.status == 200
    assert server.refused == 1
    assert len(sizes_in(server.prompts[-1])) == 1
    assert "replay" in stages(answer)


async def test_a_second_question_still_has_the_scaled_photo(tmp_path: Path) -> None:
    server = VisionServer(2_048)
    history = [SYSTEM, asks("Criticise it.", photo())]
    async with looking(server, tmp_path) as met:
        await tell(met, history)
        history += [says("A harbour at dawn."), user("Is the horizon level?")]
        answer = await tell(met, history)

    assert answer.status == 200
    assert len(sizes_in(server.prompts[-1])) == 1
    assert server.prompts[1][: len(server.prompts[0])] == server.prompts[0]


async def test_an_image_that_fits_passes_byte_for_byte(tmp_path: Path) -> None:
    server = VisionServer(8_192)
    async with looking(server, tmp_path) as met:
        answer = await tell(met, [SYSTEM, asks("Look", photo(1_000, 750))])

    assert stages(answer) == []
    assert sizes_in(server.prompts[-1]) == [(1_000, 750)]


async def test_two_photos_in_one_message_share_the_room(tmp_path: Path) -> None:
    server = VisionServer(4_096)
    both = user([*asks("Which?", photo())["content"], asks("", photo(seed=1))["content"][1]])
    async with looking(server, tmp_path) as met:
        answer = await tell(met, [SYSTEM, both])

    assert answer.status == 200
    one, two = sizes_in(server.prompts[-1])
    assert one == two


async def test_a_photo_that_cannot_be_opened_is_replaced_and_the_model_is_told(
    tmp_path: Path,
) -> None:
    server = VisionServer(2_048)
    broken = photo()[:4_000]
    async with looking(server, tmp_path) as met:
        answer = await tell(met, [SYSTEM, asks("Look", broken)])

    assert answer.status == 200
    words = [part["text"] for part in server.prompts[-1][1]["content"]]
    assert words == ["Look", "[Attached image/jpeg: file]", LEFT_OUT_NOTE]
    assert "suggest a smaller file or fewer files" in words[-1]


async def test_more_pixels_than_allowed_are_never_sent(tmp_path: Path) -> None:
    server = VisionServer(100_000)
    async with looking(server, tmp_path, vision={"max_pixels": 500_000}) as met:
        first = await tell(met, [SYSTEM, asks("Look", photo())])
        small = await tell(met, [SYSTEM, asks("Look", photo(800, 600))])

    large, unchanged = (sizes_in(prompt)[0] for prompt in server.prompts)
    assert 400_000 < large.width * large.height <= 500_000
    assert stages(first) == ["scale_images"]
    assert unchanged == (800, 600)
    assert stages(small) == []


async def test_a_body_with_too_many_bytes_is_sent_with_smaller_images(tmp_path: Path) -> None:
    """BUGS 17: few tokens, many bytes."""
    server = VisionServer(100_000, max_bytes=200_000)
    async with looking(server, tmp_path) as met:
        answer = await tell(met, [SYSTEM, asks("Look", photo(2_000, 1_500, form="PNG"))])

    assert answer.status == 200
    assert server.refused == 1
    [size] = sizes_in(server.prompts[-1])
    assert size.width * size.height <= 512 * 512


async def test_without_pillow_the_model_is_told_that_the_image_was_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaled_images, "is_available", lambda: False)
    server = VisionServer(2_048)
    async with looking(server, tmp_path, vision={"max_pixels": 1_000}) as met:
        answer = await tell(met, [SYSTEM, asks("Look", photo())])

    assert answer.status == 200
    assert sizes_in(server.prompts[-1]) == []
    assert LEFT_OUT_NOTE in str(server.prompts[-1])


async def test_a_bomb_is_not_opened_and_handled_as_unknown(tmp_path: Path) -> None:
    """A header with 60,000x60,000 pixels: it counts as any image of unknown size."""
    server = VisionServer(8_192)
    async with looking(server, tmp_path, vision={"max_pixels": 1_000_000}) as met:
        answer = await tell(met, [SYSTEM, asks("Look", png(60_000, 60_000))])
        metrics = met.proxy.services.metrics.images

        assert metrics.labels("scaled")._value.get() == 0
    assert answer.status == 200
    assert stages(answer) == []
    assert int(answer.headers["x-chat-proxy-tokens-before"]) < 2_000


async def test_in_observe_mode_the_image_is_sent_as_it_came(tmp_path: Path) -> None:
    server = VisionServer(100_000)
    async with looking(server, tmp_path, window=4_096, mode="observe") as met:
        answer = await tell(met, [SYSTEM, asks("Look", photo())])

    assert sizes_in(server.prompts[-1]) == [(4_000, 3_000)]
    assert stages(answer) == ["scale_images"]


# The same bytes


async def test_scaled_images_have_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    """BUGS 44: requests, restarts and replicas without a common cache."""
    server = VisionServer(4_096)
    history: list[Fields] = [SYSTEM, asks("Criticise it.", photo())]
    later = [*history, says("A harbour at dawn."), user("Is it level?")]
    for _ in range(2):
        async with looking(server, tmp_path) as met:
            await tell(met, history)
            await tell(met, history)
            await tell(met, later)

    first, again, third, *other = server.prompts
    assert first == again
    assert other == [first, again, third]
    assert third[: len(first)] == first


async def test_a_photo_is_scaled_once(tmp_path: Path) -> None:
    server = VisionServer(4_096)
    async with looking(server, tmp_path) as met:
        for _ in range(3):
            await tell(met, [SYSTEM, asks("Criticise it.", photo())])
        metrics = met.proxy.services.metrics.images

        assert metrics.labels("scaled")._value.get() == 1
        assert metrics.labels("reused")._value.get() >= 2
