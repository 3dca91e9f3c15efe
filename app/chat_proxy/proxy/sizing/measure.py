"""The size of a request for its model: tokens, context window, budget."""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.budget import Budget
from chat_proxy.compaction.recall.policy import TOOL_TOKENS
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.sizing.calibrations import Calibrations
from chat_proxy.proxy.sizing.context_window import Window
from chat_proxy.proxy.sizing.learned_windows import LearnedWindows
from chat_proxy.proxy.sizing.model_sizing import ModelSizing, ModelSizings
from chat_proxy.proxy.sizing.tokenizers import Tokenizers
from chat_proxy.tokens.calibration.calibration import Calibration
from chat_proxy.tokens.counter import RequestCount
from chat_proxy.tokens.overheads import CountingRules, UpstreamKind


@dataclass(frozen=True, slots=True)
class Sizing:
    """The state that requests are measured with; upstream answers correct it."""

    tokenizers: Tokenizers
    calibrations: Calibrations
    model_sizings: ModelSizings
    learned_windows: LearnedWindows


class TokenCount(NamedTuple):
    """The tokens of a whole request; `counted` is before calibration."""

    counted: RequestCount
    tokens: int

    @property
    def ratio(self) -> float:
        """The upstream's tokens per counted token."""
        return self.tokens / max(1, self.counted.total)

    @property
    def sizes(self) -> list[int]:
        """The tokens of each message."""
        ratio = self.ratio
        return [ceil(tokens * ratio) for tokens in self.counted.messages]


class Measured(NamedTuple):
    """A request with its size; `tokens` is the count as this upstream would make it."""

    conversation: Conversation
    rules: CountingRules
    counted: RequestCount
    calibration: Calibration
    tokens: int
    window: Window | None
    budget: Budget | None
    kind: UpstreamKind = "unknown"
    """The kind of server, if the upstream's listing shows it."""

    @property
    def token_count(self) -> TokenCount:
        """The token count of the request as the client sent it."""
        return TokenCount(self.counted, self.tokens)

    @property
    def ratio(self) -> float:
        """The upstream's tokens per counted token."""
        return self.token_count.ratio


async def measure(
    request: ChatRequest, route: ModelRoute, credentials: RawHeaders, sizing: Sizing
) -> Measured | None:
    """Measure a request; return None if its messages have a shape that is not understood."""
    measured = _measure_at_once(request, route, credentials, sizing)
    if measured is not None:
        return measured
    conversation = request.conversation
    if conversation is None:
        return None
    model_sizing = await sizing.model_sizings.of(route, credentials)
    rules = model_sizing.rules
    calibration = await sizing.calibrations.of(route.base_url, route.model, rules.prior)
    model_sizing = model_sizing.with_learned(calibration)
    count = await sizing.tokenizers.count(request, conversation, model_sizing.rules)
    return _measured(request, conversation, model_sizing, calibration, count, route)


def _measure_at_once(
    request: ChatRequest, route: ModelRoute, credentials: RawHeaders, sizing: Sizing
) -> Measured | None:
    """Measure a request without waiting, which works for most; return None otherwise."""
    conversation = request.conversation
    model_sizing = sizing.model_sizings.known(route, credentials)
    calibration = sizing.calibrations.known(route.base_url, route.model)
    if conversation is None or model_sizing is None or calibration is None:
        return None
    if calibration.prior != model_sizing.rules.prior:
        return None
    model_sizing = model_sizing.with_learned(calibration)
    count = sizing.tokenizers.count_at_once(request, conversation, model_sizing.rules)
    if count is None:
        return None
    return _measured(request, conversation, model_sizing, calibration, count, route)


def _measured(
    request: ChatRequest,
    conversation: Conversation,
    sizing: ModelSizing,
    calibration: Calibration,
    count: RequestCount,
    route: ModelRoute,
) -> Measured:
    rules, window = sizing.rules, sizing.window
    budget = budget_in(window, request, route) if window else None
    tokens = calibration.estimate(count)
    return Measured(conversation, rules, count, calibration, tokens, window, budget, sizing.kind)


def measured_in(
    measured: Measured, window: Window, request: ChatRequest, route: ModelRoute
) -> Measured:
    """Return the measured request in another window."""
    return measured._replace(window=window, budget=budget_in(window, request, route))


def budget_in(window: Window, request: ChatRequest, route: ModelRoute) -> Budget:
    """Return the request's budget in a window, less the tool that may be added to the request."""
    added = TOOL_TOKENS if route.policy.recall.offers(request.options) else 0
    return Budget.of(
        window.tokens - added,
        request.options,
        route.policy.budget,
        window.input_limit,
        route.card.max_output_tokens,
    )
