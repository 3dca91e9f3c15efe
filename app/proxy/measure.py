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


async def measure(
    request: ChatRequest, to: Addressee, credentials: RawHeaders, services: Services
) -> Measured | None:
    """Measure a request; nothing if its messages are of a shape that nobody here understands."""
    conversation = request.conversation
    if conversation is None:
        return None
    known = services.yardsticks.known(to)
    rules, window, *_ = known or await services.yardsticks.of(to, credentials)
    calibration = services.calibrations.known(to.base_url, to.model)
    if calibration is None:
        calibration = await services.calibrations.of(to.base_url, to.model, rules.text_factor)
    count = await services.tokenizers.count(request, conversation, rules)
    budget = budget_in(window, request, to.policy) if window else None
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
