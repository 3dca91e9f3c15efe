"""Silent truncation: an upstream cuts a prompt to its window, answers 200, and only counts less.

Ollama does it in two ways. If the newest message does not fit with the instructions and tools, it
keeps the end of the prompt: half the window and two tokens. Otherwise it drops whole messages, the
oldest first, until the rest fits. Other servers cut to the window itself.

An honest upstream may count little as well: its tokenizer is better at a language than ours, its
template leaves out what we count, its report leaves out what was cached. A wrong window would hurt
every client of the model for days, so a low count alone is not enough.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.session.request import CompactionRequest
from chat_proxy.proxy.sizing.measure import Sizing
from chat_proxy.telemetry.logs import WARNING, log
from chat_proxy.telemetry.record import MODEL_CHARS
from chat_proxy.tokens.calibration.calibration import Calibration
from chat_proxy.tokens.calibration.factors import TOOLS
from chat_proxy.tokens.counter import RequestCount
from chat_proxy.tokens.overheads import UpstreamKind
from chat_proxy.wires.usage import Usage

TRUNCATING_KINDS: Final[Collection[UpstreamKind]] = ("ollama", "sglang", "unknown")
"""The servers that may truncate; the others always refuse a prompt that is too long."""
TRUNCATING_FIELDS: Final = ("truncate_prompt_tokens", "truncation", "transforms")
"""The fields by which a client itself asks for truncation."""
MIN_PROMPT_TOKENS: Final = 2_000
MIN_WINDOW: Final = 2_048
LOW_SHARE: Final = 0.6
"""Truncation is possible if the upstream counted less than this share of our estimate."""
LOW_SHARE_UNCALIBRATED: Final = 0.4
"""The same share while the estimate may be far off: tokenizers differ."""
LEARNED_VARIANCE: Final = 0.02
"""The variance of a factor that is known well enough, after reports of some hundred tokens."""
WINDOW_STEP: Final = 1_024
"""Windows are multiples of it, with few exceptions."""
UNUSED_TOKENS: Final = 32
"""The most tokens of its window that a server leaves free when it cuts to it."""
OLLAMA_EXTRA_TOKENS: Final = 2
OLLAMA_SMALLEST_WINDOW: Final = 4_096
"""The smallest that Ollama chooses by itself."""
SAME_TOKENS: Final = 16
OTHER_SIZE: Final = 1.1
"""The ratio from which two prompts have different sizes."""
MIN_GROWTH: Final = 1 / 3
"""The growth of honest reports, in tokens per estimated token."""


class SentPrompt(NamedTuple):
    """A prompt that was sent, as far as the upstream's own count can be compared with it."""

    counted: RequestCount
    calibration: Calibration
    kind: UpstreamKind = "unknown"
    window: int | None = None
    """The window that is known so far."""
    is_cut_on_request: bool = False
    """Whether the client itself asked the upstream to truncate it."""


def sent_prompt(
    compaction: CompactionRequest, counted: RequestCount, added_tokens: int = 0
) -> SentPrompt:
    """Return the prompt of a request that is sent with so many tokens, and with a tool of ours."""
    measured = compaction.measured
    if added_tokens:
        counted = counted._replace(tools=counted.tools + added_tokens).rescaled()
    return SentPrompt(
        counted,
        measured.calibration,
        measured.kind,
        measured.window.tokens if measured.window else None,
        not compaction.request.options.keys().isdisjoint(TRUNCATING_FIELDS),
    )


class SilentTruncation(NamedTuple):
    """The window to which an upstream truncated a prompt, and the numbers that show it."""

    window: int
    known_window: int | None
    estimate: int
    prompt_tokens: int


def truncation_of(prompt: SentPrompt, usage: Usage) -> SilentTruncation | None:
    """Return how the upstream truncated a prompt silently, None if nothing shows that it did."""
    reported = usage.prompt_tokens
    is_known = prompt.kind in TRUNCATING_KINDS and not prompt.counted.is_guess
    if reported <= 0 or not is_known or prompt.is_cut_on_request:
        return None
    estimate = prompt.calibration.estimate(prompt.counted)
    if reported + usage.cached_tokens >= LOW_SHARE * estimate:
        return None
    certain = certain_tokens(prompt)
    share = (reported + usage.cached_tokens) / max(1, certain)
    if certain < MIN_PROMPT_TOKENS or share >= LOW_SHARE:
        return None
    window = _window_behind(reported, share, estimate, prompt)
    if window is None or window < MIN_WINDOW:
        return None
    known = prompt.window
    return SilentTruncation(min(window, known or window), known, estimate, reported)


def learn_truncation(truncation: SilentTruncation, route: ModelRoute, sizing: Sizing) -> None:
    """Lower the model's window for all later requests; log it if it was larger before."""
    window, known = truncation.window, truncation.known_window
    is_news = known is None or window < known
    if is_news and sizing.learned_windows.lower(route.base_url, route.model, window):
        log(
            "the upstream truncated a prompt silently: its window is learned",
            WARNING,
            model=route.model[:MODEL_CHARS],
            **truncation._asdict(),
        )


def certain_tokens(prompt: SentPrompt) -> int:
    """Return the estimate of what must be in the prompt.

    Media, reasoning and tool definitions may cost next to nothing: the price of media is a guess,
    and templates leave out the others. Definitions count if Ollama or earlier reports show them.
    """
    calibration, counted = prompt.calibration, prompt.counted
    has_tools = prompt.kind == "ollama" or calibration.doubt[TOOLS][TOOLS] <= LEARNED_VARIANCE
    tools = counted.tools if has_tools else 0
    certain = counted._replace(
        reasoning=0, tools=tools, images=0, documents=0, audio=0, video=0, image_cells=0
    )
    return calibration.estimate(certain.rescaled())


def _window_behind(reported: int, share: float, estimate: int, prompt: SentPrompt) -> int | None:
    """Return the window that explains a low report, None if it may be an honest count."""
    next_step = -(-reported // WINDOW_STEP) * WINDOW_STEP
    near = next_step if next_step - reported <= UNUSED_TOKENS else None
    if _is_repeated(reported, estimate, prompt.calibration):
        return near or reported
    if _grows(reported, estimate, prompt.calibration):
        return None
    doubled = 2 * (reported - OLLAMA_EXTRA_TOKENS)
    if prompt.kind != "sglang" and doubled % WINDOW_STEP == 0:
        return doubled
    if share >= LOW_SHARE_UNCALIBRATED and not _is_learned(prompt):
        return None
    if near is None and prompt.kind == "ollama":
        is_larger = estimate > OLLAMA_SMALLEST_WINDOW
        return max(next_step, OLLAMA_SMALLEST_WINDOW) if is_larger else next_step
    return near


def _is_learned(prompt: SentPrompt) -> bool:
    """Return whether the cost of the prompt's texts is known well enough."""
    texts = RequestCount(text=prompt.counted.words, scripts=prompt.counted.scripts)
    return prompt.calibration.relative_variance(texts) <= LEARNED_VARIANCE


def _is_repeated(reported: int, estimate: int, calibration: Calibration) -> bool:
    """Return whether a prompt of another size had the same low report: both were cut to it."""
    return any(
        abs(reported - earlier) <= SAME_TOKENS and _differ(estimate, expected)
        for expected, earlier in calibration.doubted
    )


def _grows(reported: int, estimate: int, calibration: Calibration) -> bool:
    """Return whether low reports grow with the prompts, as those of a better tokenizer do."""
    return any(
        _differ(estimate, expected) and (reported - earlier) / (estimate - expected) > MIN_GROWTH
        for expected, earlier in calibration.doubted
    )


def _differ(tokens: float, others: float) -> bool:
    return max(tokens, others) >= OTHER_SIZE * min(tokens, others)
