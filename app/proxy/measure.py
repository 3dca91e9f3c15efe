"""How large a request is for its model: tokens, window, budget."""

from math import ceil
from typing import NamedTuple

from app.chat.conversation import Conversation
from app.chat.request import ChatRequest
from app.compaction.budget import Budget
from app.proxy.addressee import Addressee
from app.proxy.model_policy import ModelPolicy
from app.proxy.services import Services
from app.proxy.window import Window
from app.proxy.yardsticks import Yardstick
from app.tokens.calibration import Calibration
from app.tokens.counter import RequestCount
from app.tokens.overheads import CountingRules
from app.upstream.headers import RawHeaders


class Weight(NamedTuple):
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
    def weight(self) -> Weight:
        """What the request weighs as it came."""
        return Weight(self.counted, self.tokens)

    @property
    def ratio(self) -> float:
        """What one counted token comes to at the upstream."""
        return self.weight.ratio


async def measure(
    request: ChatRequest, to: Addressee, credentials: RawHeaders, services: Services
) -> Measured | None:
    """Measure a request; nothing if its messages are of a shape that nobody here understands."""
    conversation = request.conversation
    if conversation is None:
        return None
    yardstick = await services.yardsticks.of(to, credentials)
    rules = yardstick.rules
    calibration = await services.calibrations.of(to.base_url, to.model, rules.text_factor)
    count = await services.tokenizers.count(request, conversation, rules)
    return _measured(request, conversation, yardstick, calibration, count, to.policy)


def measure_at_once(request: ChatRequest, to: Addressee, services: Services) -> Measured | None:
    """Measure a request if nothing must be waited for, as with most; nothing otherwise."""
    conversation = request.conversation
    yardstick = services.yardsticks.known(to)
    calibration = services.calibrations.known(to.base_url, to.model)
    if conversation is None or yardstick is None or calibration is None:
        return None
    count = services.tokenizers.count_at_once(request, conversation, yardstick.rules)
    if count is None:
        return None
    return _measured(request, conversation, yardstick, calibration, count, to.policy)


def _measured(
    request: ChatRequest,
    conversation: Conversation,
    yardstick: Yardstick,
    calibration: Calibration,
    count: RequestCount,
    policy: ModelPolicy,
) -> Measured:
    rules, window = yardstick.rules, yardstick.window
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
