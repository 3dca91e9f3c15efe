"""What a model's requests are measured by: how they are counted, and the window they must fit."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.routing.model_policy import ModelPolicies
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.sizing.context_window import Window, find_window
from chat_proxy.proxy.sizing.learned_windows import LearnedWindows
from chat_proxy.tokens.overheads import CountingRules
from chat_proxy.upstream.discovery import Windows

REMEMBERED_MODELS = 1_000
# What an upstream once taught is forgotten after days: nobody needs to look at every request.
LOOK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ModelSizing:
    """How to measure, and what that was made from."""

    rules: CountingRules
    window: Window | None
    news: int
    until: float


class ModelSizings:
    """Makes yardsticks, and keeps each until somebody says something new."""

    def __init__(
        self,
        windows: Windows,
        learned_windows: LearnedWindows,
        policies: ModelPolicies,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._windows = windows
        self._learned_windows = learned_windows
        self._policies = policies
        self._clock = clock
        self._known: dict[tuple[str, str], ModelSizing] = {}

    async def of(self, to: ModelRoute, credentials: RawHeaders) -> ModelSizing:
        """Return the model's yardstick; the first request to an upstream may wait for it."""
        return self.known(to) or await self._make(to, credentials)

    def known(self, to: ModelRoute) -> ModelSizing | None:
        """Return the yardstick that was made before, if it would be made the same again."""
        known = self._known.get((to.base_url, to.model))
        if known is None or known.news != self._news() or self._clock() >= known.until:
            return None
        return known

    def _news(self) -> int:
        """Return a number that grows with everything that an upstream says of its windows."""
        return self._windows.news + self._learned_windows.lessons

    async def _make(self, to: ModelRoute, credentials: RawHeaders) -> ModelSizing:
        news = self._news()  # what comes while this is being made makes it old
        listing = await self._windows.of(to.base_url, credentials)
        learned = await self._learned_windows.of(to.base_url, to.model)
        window = find_window(
            to.model,
            setting=to.policy.context_window,
            registry=to.card.context_window,
            discovered=listing.windows.get(to.model),
            learned=learned,
        )
        rules = self._policies.rules(to.card, to.model, listing.kind)
        until = min(self._clock() + LOOK_SECONDS, self._windows.good_until(to.base_url))
        made = ModelSizing(rules, window, news, until)
        if len(self._known) >= REMEMBERED_MODELS:
            self._known.clear()
        self._known[to.base_url, to.model] = made
        return made
