"""The engine's own token counts, asked for in the background where estimates are uncertain."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from chat_proxy.caches import BoundedDict
from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.errors import UpstreamError
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.sizing.calibrations import Calibrations
from chat_proxy.proxy.sizing.measure import Measured
from chat_proxy.telemetry.logs import log_exception
from chat_proxy.tokens.counter import RequestCount
from chat_proxy.upstream.client import Upstream
from chat_proxy.upstream.token_counts import COUNTING_KINDS, NoCountEndpoint, count_tokens

REMEMBERED_MODELS: Final = 1_000
MAX_QUESTIONS: Final = 2
MAX_BYTES: Final = 1024 * 1024
PAUSE_SECONDS: Final = 1.0
FAILED_SECONDS: Final = 60.0
MISSING_SECONDS: Final = 3_600.0
UNCERTAIN_VARIANCE: Final = 0.1**2
"""The relative variance from which an estimate is worth a question."""
UNCERTAIN_NEAR_TRIGGER: Final = 0.015**2

_OWN_FORM: Final = ("continue_final_message", "add_generation_prompt", "chat_template", "documents")
"""Fields that change the prompt in ways that the endpoints do not share."""


class EngineCounts:
    """Ask an engine for the size of a request, beside the request, and calibrate by the answer.

    One question per model and second at most, MAX_QUESTIONS at once. A question goes where the
    request goes, with the credentials of the request. What is kept is when a model may be asked
    again, keyed by base URL and model; it holds no tenant's data.
    """

    def __init__(
        self,
        upstream: Upstream,
        calibrations: Calibrations,
        *,
        enabled: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._upstream = upstream
        self._calibrations = calibrations
        self._enabled = enabled
        self._clock = clock
        self._not_before: BoundedDict[tuple[str, str], float] = BoundedDict(REMEMBERED_MODELS)
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Cancel the questions that have no answer yet."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def ask_later(
        self,
        request: ChatRequest,
        route: ModelRoute,
        measured: Measured,
        credentials: RawHeaders,
    ) -> None:
        """Begin to ask about a request, if its engine can be asked and the answer is worth it."""
        if not self._enabled or measured.kind not in COUNTING_KINDS:
            return
        key, now = (route.base_url, route.model), self._clock()
        if now < self._not_before.get(key, 0.0):
            return
        self._not_before.put(key, now + PAUSE_SECONDS)
        if len(self._tasks) >= MAX_QUESTIONS or not is_worth_asking(request, measured):
            return
        task = asyncio.create_task(self._ask(request, key, measured, credentials))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(
        self,
        request: ChatRequest,
        key: tuple[str, str],
        measured: Measured,
        credentials: RawHeaders,
    ) -> None:
        base_url, model = key
        wait = 0.0
        try:
            tokens = await count_tokens(
                self._upstream, measured.kind, base_url, request.fields, credentials
            )
            self._calibrations.learn_exactly(base_url, model, measured.counted, tokens)
        except NoCountEndpoint:
            wait = MISSING_SECONDS
        except UpstreamError:
            wait = FAILED_SECONDS
        except Exception as error:  # noqa: BLE001 - features fail open
            log_exception("an engine could not be asked for a token count", error)
            wait = FAILED_SECONDS
        if wait:
            self._not_before.put(key, self._clock() + wait)


def is_worth_asking(request: ChatRequest, measured: Measured) -> bool:
    """Return whether the estimate is uncertain, and the engine's count would be of the same."""
    counted = measured.counted
    if len(request.body) > MAX_BYTES or not _is_countable(request, counted):
        return False
    calibration, budget = measured.calibration, measured.budget
    if not calibration.lessons:
        return True
    is_near = budget is not None and measured.tokens >= budget.prepare
    allowed = UNCERTAIN_NEAR_TRIGGER if is_near else UNCERTAIN_VARIANCE
    return calibration.relative_variance(counted) > allowed


def _is_countable(request: ChatRequest, counted: RequestCount) -> bool:
    """Return whether engines count the request as they would for an answer.

    vLLM's `/tokenize` leaves out earlier reasoning, and before 0.20 an image that it counted could
    spoil the following chat.
    """
    if counted.is_guess or counted.media or counted.reasoning or request.has_lone_surrogates:
        return False
    return request.options.keys().isdisjoint(_OWN_FORM)
