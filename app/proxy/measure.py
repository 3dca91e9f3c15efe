"""How large a request is for its model: tokens, window, budget."""

from dataclasses import dataclass, replace

from app.chat.conversation import Conversation
from app.chat.request import ChatRequest
from app.compaction.budget import Budget
from app.proxy.model_policy import ModelPolicy
from app.proxy.services import Services
from app.proxy.window import Window, find_window
from app.registry.model_card import ModelCard
from app.tokens.calibration import Calibration
from app.tokens.counter import RequestCount
from app.tokens.overheads import CountingRules
from app.upstream.headers import RawHeaders


@dataclass(frozen=True, slots=True)
class Measured:
    """A request with its size; `tokens` is the count as this upstream would make it."""

    conversation: Conversation
    rules: CountingRules
    count: RequestCount
    calibration: Calibration
    tokens: int
    window: Window | None
    budget: Budget | None


async def measure(
    request: ChatRequest, card: ModelCard, credentials: RawHeaders, services: Services
) -> Measured | None:
    """Measure a request; nothing if its messages are of a shape that nobody here understands."""
    conversation = request.conversation
    if conversation is None:
        return None
    base_url = services.destinations.base_url_of(card)
    upstream = await services.windows.of(base_url, credentials)
    policy = services.policies.of(card)
    rules = services.policies.rules(card, request.model, upstream.kind)
    calibration = await services.calibrations.of(base_url, request.model, rules.text_factor)
    count = await services.tokenizers.count(request, conversation, rules)
    learned = await services.learned_windows.of(base_url, request.model)
    window = find_window(
        request.model,
        setting=policy.context_window,
        registry=card.context_window,
        discovered=upstream.windows.get(request.model),
        learned=learned,
    )
    budget = budget_in(window, request, policy) if window else None
    tokens = calibration.estimate(count)
    return Measured(conversation, rules, count, calibration, tokens, window, budget)


def measured_in(
    measured: Measured, window: Window, request: ChatRequest, policy: ModelPolicy
) -> Measured:
    """Return the measured request in a window."""
    return replace(measured, window=window, budget=budget_in(window, request, policy))


def budget_in(window: Window, request: ChatRequest, policy: ModelPolicy) -> Budget:
    """Return what the request may take of a window."""
    return Budget.of(window.tokens, request.options, policy.budget, window.input_limit)
