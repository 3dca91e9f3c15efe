"""How large a request is for its model: tokens, window, budget."""

from math import ceil
from typing import NamedTuple

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.budget import Budget
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.routing.model_policy import ModelPolicy
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.sizing.context_window import Window
from chat_proxy.proxy.sizing.model_sizing import ModelSizing
from chat_proxy.tokens.calibration import Calibration
from chat_proxy.tokens.counter import RequestCount
from chat_proxy.tokens.overheads import CountingRules


class TokenCount(NamedTuple):
    """The tokens of a whole request; `counted` is before calibration."""

    counted: RequestCount
    tokens: int

    @property
    def ratio(self) -> float:
        """What one counted token comes to at the upstream."""
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

    @property
    def token_count(self) -> TokenCount:
        """What the request weighs as it came."""
        return TokenCount(self.counted, self.tokens)

    @property
    def ratio(self) -> float:
        """What one counted token comes to at the upstream."""
        return self.token_count.ratio


async def measure(
    request: ChatRequest, to: ModelRoute, credentials: RawHeaders, services: Services
) -> Measured | None:
    """Measure a request; nothing if its messages are of a shape that nobody here understands."""
    conversation = request.conversation
    if conversation is None:
        return None
    sizing = await services.model_sizings.of(to, credentials)
    rules = sizing.rules
    calibration = await services.calibrations.of(to.base_url, to.model, rules.text_factor)
    count = await services.tokenizers.count(request, conversation, rules)
    return _measured(request, conversation, sizing, calibration, count, to.policy)


def measure_at_once(request: ChatRequest, to: ModelRoute, services: Services) -> Measured | None:
    """Measure a request if nothing must be waited for, as with most; nothing otherwise."""
    conversation = request.conversation
    sizing = services.model_sizings.known(to)
    calibration = services.calibrations.known(to.base_url, to.model)
    if conversation is None or sizing is None or calibration is None:
        return None
    count = services.tokenizers.count_at_once(request, conversation, sizing.rules)
    if count is None:
        return None
    return _measured(request, conversation, sizing, calibration, count, to.policy)


def _measured(
    request: ChatRequest,
    conversation: Conversation,
    sizing: ModelSizing,
    calibration: Calibration,
    count: RequestCount,
    policy: ModelPolicy,
) -> Measured:
    rules, window = sizing.rules, sizing.window
    budget = budget_in(window, request, policy) if window else None
    tokens = calibration.estimate(count)
    return Measured(conversation, rules, count, calibration, tokens, window, budget)


def measured_in(
    measured: Measured, window: Window, request: ChatRequest, policy: ModelPolicy
) -> Measured:
    """Return the measured request in a window."""
    return measured._replace(window=window, budget=budget_in(window, request, policy))


def budget_in(window: Window, request: ChatRequest, policy: ModelPolicy) -> Budget:
    """Return what the request may take of a window."""
    return Budget.of(window.tokens, request.options, policy.budget, window.input_limit)
