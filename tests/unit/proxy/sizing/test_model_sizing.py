"""What a model's requests are measured by, as long as nobody has news."""

import pytest

from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.sizing.context_window import LearnedLimits
from chat_proxy.proxy.sizing.model_sizing import LOOK_SECONDS, REMEMBERED_MODELS, ModelSizings
from chat_proxy.upstream.discovery import Listing
from chat_proxy.upstream.overflow import Overflow
from chat_proxy.wiring import make_services
from tests.support.live import settings


class Told:
    """Windows as an upstream tells them."""

    def __init__(self) -> None:
        self.listing = Listing({"fake": 4_096}, "vllm")
        self.news = 1
        self.due = 2 * LOOK_SECONDS

    def good_until(self, _: str, __: object) -> float:
        return self.due

    async def of(self, *_: object) -> Listing:
        return self.listing


class Bench:
    """Yardsticks whose sources can be moved."""

    def __init__(self) -> None:
        self.now = 0.0
        self.told = Told()
        self.services: Services = make_services(settings(store={"url": "memory:"}), {})
        self.model_sizings = ModelSizings(
            self.told,  # type: ignore[arg-type]
            self.services.sizing.learned_windows,
            self.services.policies,
            lambda: self.now,
        )
        self.to: ModelRoute = self.services.model_routes.of("fake")

    async def tokens(self) -> int:
        """Return the window in tokens."""
        window = (await self.model_sizings.of(self.to, [])).window
        assert window is not None
        return window.tokens


@pytest.mark.anyio
async def test_a_yardstick_is_made_once_while_there_is_no_news() -> None:
    bench = Bench()

    made = await bench.model_sizings.of(bench.to, [])

    assert bench.model_sizings.known(bench.to, []) is made
    assert made.window is not None
    assert (made.window.tokens, made.window.source) == (4_096, "discovery")


@pytest.mark.anyio
async def test_a_new_list_of_models_makes_it_anew() -> None:
    bench = Bench()
    assert await bench.tokens() == 4_096

    bench.told.listing = Listing({"fake": 8_192}, "vllm")
    assert await bench.tokens() == 4_096
    bench.told.news += 1

    assert await bench.tokens() == 8_192


@pytest.mark.anyio
async def test_what_an_overflow_teaches_holds_for_the_next_request() -> None:
    bench = Bench()
    assert await bench.tokens() == 4_096

    bench.services.sizing.learned_windows.learn(bench.to.base_url, "fake", Overflow(limit=2_048))

    assert await bench.tokens() == 2_048
    await bench.services.sizing.learned_windows.close()


@pytest.mark.anyio
async def test_nothing_is_known_when_the_upstream_is_to_be_asked_or_time_has_passed() -> None:
    bench = Bench()
    for due in (LOOK_SECONDS / 2, 2 * LOOK_SECONDS):
        bench.now, bench.told.due = 0.0, due
        bench.told.news += 1
        await bench.tokens()

        bench.now = min(due, LOOK_SECONDS) - 1
        assert bench.model_sizings.known(bench.to, []) is not None
        bench.now += 1
        assert bench.model_sizings.known(bench.to, []) is None


@pytest.mark.anyio
async def test_news_that_come_while_a_yardstick_is_made_make_it_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    learned = bench.services.sizing.learned_windows.of

    async def slowly(base_url: str, model: str) -> LearnedLimits | None:
        bench.told.listing = Listing({"fake": 8_192}, "vllm")
        bench.told.news += 1
        return await learned(base_url, model)

    with monkeypatch.context() as patch:
        patch.setattr(bench.services.sizing.learned_windows, "of", slowly)
        assert await bench.tokens() == 4_096

    assert await bench.tokens() == 8_192


@pytest.mark.anyio
async def test_no_more_yardsticks_are_kept_than_there_is_room_for() -> None:
    bench = Bench()
    for number in range(REMEMBERED_MODELS + 1):
        await bench.model_sizings.of(bench.services.model_routes.of(f"fake-{number}"), [])

    known = [
        bench.model_sizings.known(bench.services.model_routes.of(f"fake-{number}"), []) is not None
        for number in (0, REMEMBERED_MODELS)
    ]

    assert known == [False, True]
