"""How a model's requests are measured: the rules of counting, and the context window."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from chat_proxy.caches import BoundedDict
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.routing.model_policy import ModelPolicies
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.sizing.context_window import Window, find_window
from chat_proxy.proxy.sizing.learned_windows import LearnedWindows
from chat_proxy.tokens.calibration.calibration import Calibration
from chat_proxy.tokens.overheads import CountingRules, UpstreamKind, in_vocabulary
from chat_proxy.upstream.discovery import Windows, credential_key

REMEMBERED_MODELS = 1_000
# Learned windows expire after days, so they need not be checked on every request.
LOOK_SECONDS = 60.0
_NOTHING_LEARNED = (None, None)


@dataclass(frozen=True, slots=True)
class ModelSizing:
    """How to measure a model's requests, and for how long that is valid."""

    rules: CountingRules
    kind: UpstreamKind
    window: Window | None
    news: int
    until: float
    _learned: dict[tuple[str | None, str | None], "ModelSizing"] = field(
        default_factory=dict, compare=False, repr=False
    )

    def with_learned(self, calibration: Calibration) -> "ModelSizing":
        """Return the sizing with the family of images and the vocabulary that were learned.

        A family of images counts only if the model's name or the registry shows none.
        """
        key = calibration.image_family, calibration.vocabulary
        if key == _NOTHING_LEARNED:
            return self
        learned = self._learned.get(key)
        if learned is None:
            family, vocabulary = key
            rules = in_vocabulary(self.rules, vocabulary)
            if family is not None and rules.image_family is None:
                rules = replace(rules, image_family=family, learns_images=True)
            learned = self._learned[key] = replace(self, rules=rules)
        return learned


class ModelSizings:
    """Make the sizing of each model, cached by base URL, model and credential.

    It is made anew when a window changes.
    """

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
        self._known: BoundedDict[tuple[str, str, int], ModelSizing] = BoundedDict(REMEMBERED_MODELS)

    async def of(self, route: ModelRoute, credentials: RawHeaders) -> ModelSizing:
        """Return the model's sizing; the first request to an upstream may wait for it."""
        return self.known(route, credentials) or await self._make(route, credentials)

    def known(self, route: ModelRoute, credentials: RawHeaders) -> ModelSizing | None:
        """Return the cached sizing, if it is still valid."""
        known = self._known.get((route.base_url, route.model, credential_key(credentials)))
        if known is None or known.news != self._news() or self._clock() >= known.until:
            return None
        return known

    def _news(self) -> int:
        """Return a number that grows with every report of a window, discovered or learned."""
        return self._windows.news + self._learned_windows.lessons

    async def _make(self, route: ModelRoute, credentials: RawHeaders) -> ModelSizing:
        news = self._news()  # read first: a report that arrives meanwhile invalidates the result
        listing = await self._windows.of(route.base_url, credentials)
        learned = await self._learned_windows.of(route.base_url, route.model)
        window = find_window(
            route.model,
            setting=route.policy.context_window,
            registry=route.card.context_window,
            discovered=listing.windows.get(route.model),
            learned=learned,
        )
        bases = listing.bases.get(route.model, ())
        rules = self._policies.rules(route.card, route.model, listing.kind, bases)
        until = min(
            self._clock() + LOOK_SECONDS, self._windows.good_until(route.base_url, credentials)
        )
        made = ModelSizing(rules, listing.kind, window, news, until)
        self._known.put((route.base_url, route.model, credential_key(credentials)), made)
        return made
