"""The engine's own word: its vocabulary, and its token counts where estimates are uncertain."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from chat_proxy.caches import BoundedDict
from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.errors import UpstreamError
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.sizing.calibrations import Counted, Key
from chat_proxy.proxy.sizing.measure import Measured, Sizing
from chat_proxy.telemetry.logs import log_exception
from chat_proxy.tokens.calibration.vocabulary_probes import PROBES, vocabulary_with
from chat_proxy.tokens.counter import RequestCount
from chat_proxy.tokens.overheads import in_vocabulary
from chat_proxy.upstream.client import Upstream
from chat_proxy.upstream.token_counts import (
    COUNTING_KINDS,
    Asked,
    NoCountEndpoint,
    count_text_tokens,
    count_tokens,
)

REMEMBERED_MODELS: Final = 1_000
MAX_QUESTIONS: Final = 2
MAX_BYTES: Final = 1024 * 1024
PAUSE_SECONDS: Final = 1.0
FAILED_SECONDS: Final = 60.0
MISSING_SECONDS: Final = 3_600.0
RECOGNISED_SECONDS: Final = 3_600.0
"""After so long the vocabulary is asked for again: a name may get another model."""
UNCERTAIN_VARIANCE: Final = 0.1**2
"""The relative variance from which an estimate is worth a question."""
UNCERTAIN_NEAR_TRIGGER: Final = 0.015**2

_OWN_FORM: Final = ("continue_final_message", "add_generation_prompt", "chat_template", "documents")
"""Fields that change the prompt in ways that the endpoints do not share."""


class EngineCounts:
    """Ask an engine for its vocabulary and for the size of requests, beside the requests.

    The vocabulary is asked for with three texts of our own, at a model's first request and every
    hour. One request per model and second is asked about at most, MAX_QUESTIONS at once. A question
    goes where the request goes, with the credentials of the request. What is kept is when a model
    may be asked again, keyed by base URL and model; it holds no tenant's data.
    """

    def __init__(
        self,
        upstream: Upstream,
        sizing: Sizing,
        *,
        enabled: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._upstream = upstream
        self._sizing = sizing
        self._enabled = enabled
        self._clock = clock
        self._not_before: BoundedDict[Key, float] = BoundedDict(REMEMBERED_MODELS)
        self._recognised_until: BoundedDict[tuple[str, str, str], float] = BoundedDict(
            REMEMBERED_MODELS
        )
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
        until = self._recognised_until.get((*key, measured.calibration.prior), 0.0)
        is_recognised = measured.rules.is_chosen or now < until
        is_worth = is_worth_asking(request, measured)
        if len(self._tasks) >= MAX_QUESTIONS or (is_recognised and not is_worth):
            return
        asked = Asked(measured.kind, route.base_url, route.model, credentials)
        work = self._ask(asked, measured, request if is_worth else None, is_recognised)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(
        self, asked: Asked, measured: Measured, request: ChatRequest | None, is_recognised: bool
    ) -> None:
        """Ask for the vocabulary if it is not known, and about a request if there is one."""
        key, wait = (asked.base_url, asked.model), 0.0
        try:
            if not is_recognised:
                await self._recognise(asked, measured)
            if request is not None:
                tokens = await count_tokens(self._upstream, asked, request.fields)
                counted = Counted(measured.counted, measured.calibration)
                self._sizing.calibrations.learn_exactly(key, counted, tokens)
        except NoCountEndpoint:
            wait = MISSING_SECONDS
        except UpstreamError:
            wait = FAILED_SECONDS
        except Exception as error:  # noqa: BLE001 - features fail open
            log_exception("an engine could not be asked for a token count", error)
            wait = FAILED_SECONDS
        if wait:
            self._not_before.put(key, self._clock() + wait)

    async def _recognise(self, asked: Asked, measured: Measured) -> None:
        """Count in the vocabulary that the engine's tokenizer shows, as soon as its costs are here.

        An engine that tokenizes no texts may still count chats.
        """
        key, prior = (asked.base_url, asked.model), measured.calibration.prior
        try:
            tokens = [await count_text_tokens(self._upstream, asked, probe) for probe in PROBES]
        except NoCountEndpoint:
            self._recognised_until.put((*key, prior), self._clock() + MISSING_SECONDS)
            return
        vocabulary = vocabulary_with(tokens)
        if await self._sizing.tokenizers.load(in_vocabulary(measured.rules, vocabulary)):
            self._sizing.calibrations.recognise(key, vocabulary)
        self._recognised_until.put((*key, prior), self._clock() + RECOGNISED_SECONDS)


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
