"""Which counts show that a prompt was truncated, and which window they show."""

import random
from collections.abc import Callable

import pytest

from chat_proxy.proxy.forwarding.silent_truncation import (
    MIN_PROMPT_TOKENS,
    SentPrompt,
    truncation_of,
)
from chat_proxy.tokens.calibration.calibration import Calibration
from chat_proxy.tokens.counter import RequestCount
from chat_proxy.tokens.overheads import UpstreamKind
from chat_proxy.wires.usage import Usage

FRESH = Calibration.fresh()
LONG = RequestCount(text=10_000)
KINDS: tuple[UpstreamKind, ...] = ("openai", "vllm", "sglang", "llama.cpp", "ollama", "unknown")
TRUNCATING: tuple[UpstreamKind, ...] = ("ollama", "sglang", "unknown")


def taught(*reports: tuple[int, int], tools: int = 0) -> Calibration:
    """A calibration that was told what these texts cost."""
    calibration = FRESH
    for tokens, reported in reports:
        calibration = calibration.learn(
            RequestCount(text=tokens, tools=tools), reported
        ).calibration
    return calibration


HONEST = taught((1_000, 1_000), (3_000, 3_000), (2_000, 2_000))


def window_of(
    reported: int,
    kind: UpstreamKind = "ollama",
    calibration: Calibration = HONEST,
    cached: int = 0,
    window: int | None = None,
    count: RequestCount = LONG,
) -> int | None:
    """The window that a report shows for a prompt."""
    prompt = SentPrompt(count, calibration, kind, window)
    truncation = truncation_of(prompt, Usage(reported, 5, cached))
    return truncation.window if truncation else None


@pytest.mark.parametrize("kind", ["ollama", "unknown"])
@pytest.mark.parametrize("num_ctx", [2_048, 4_096, 8_192])
def test_half_a_window_and_two_tokens_are_what_ollama_keeps(
    kind: UpstreamKind, num_ctx: int
) -> None:
    assert window_of(num_ctx // 2 + 2, kind) == num_ctx
    assert window_of(num_ctx // 2 + 2, kind, FRESH) == num_ctx


@pytest.mark.parametrize("kind", TRUNCATING)
@pytest.mark.parametrize(
    ("reported", "window"), [(4_096, 4_096), (4_095, 4_096), (4_094, 4_096), (2_040, 2_048)]
)
def test_a_report_just_below_a_window_is_that_window(
    kind: UpstreamKind, reported: int, window: int
) -> None:
    assert window_of(reported, kind) == window


@pytest.mark.parametrize(("reported", "window"), [(3_500, 4_096), (800, 4_096), (5_200, 6_144)])
def test_what_ollama_kept_of_whole_messages_fits_its_window(reported: int, window: int) -> None:
    assert window_of(reported) == window
    assert window_of(reported, "unknown") is None


def test_a_prompt_below_ollamas_own_smallest_window_was_cut_to_a_smaller_one() -> None:
    assert window_of(1_500, count=RequestCount(text=3_500)) == 2_048


@pytest.mark.parametrize("reported", [6_100, 8_192, 10_000, 14_000])
def test_a_report_near_the_estimate_shows_nothing(reported: int) -> None:
    assert window_of(reported) is None


@pytest.mark.parametrize("kind", KINDS)
def test_only_servers_that_may_truncate_are_suspected(kind: UpstreamKind) -> None:
    assert (window_of(4_095, kind) is not None) == (kind in TRUNCATING)


def test_sglang_does_not_halve() -> None:
    assert window_of(2_050, "sglang") is None


def test_a_known_window_is_never_raised() -> None:
    assert window_of(2_050, window=100_000) == 4_096
    assert window_of(2_050, window=4_096) == 4_096
    assert window_of(2_050, window=3_000) == 3_000


def test_a_client_that_asked_for_truncation_is_no_proof() -> None:
    asked = SentPrompt(RequestCount(text=10_000), HONEST, "ollama", is_cut_on_request=True)

    assert truncation_of(asked, Usage(2_050, 5, 0)) is None


def test_a_guess_is_no_proof() -> None:
    guessed = SentPrompt(RequestCount(text=10_000, is_guess=True), HONEST, "ollama")

    assert truncation_of(guessed, Usage(2_050, 5, 0)) is None


@pytest.mark.parametrize("reported", [0, -1, 1, 11, 300])
def test_reports_too_small_for_any_window_are_ignored(reported: int) -> None:
    assert window_of(reported, "unknown") is None


@pytest.mark.parametrize("kind", TRUNCATING)
def test_a_small_prompt_proves_nothing(kind: UpstreamKind) -> None:
    tokens = MIN_PROMPT_TOKENS - 100
    for reported in range(1, tokens):
        assert window_of(reported, kind, count=RequestCount(text=tokens)) is None


def test_what_was_cached_may_be_missing_in_the_report() -> None:
    assert window_of(4_095, "unknown", cached=6_000) is None
    assert window_of(4_095, "unknown", cached=1_000) == 4_096


# What the estimate is worth


@pytest.mark.parametrize("kind", ["unknown", "ollama"])
def test_at_first_contact_a_low_report_may_be_a_better_tokenizer(kind: UpstreamKind) -> None:
    assert window_of(5_110, kind, FRESH) is None
    assert window_of(5_110, kind, HONEST) == 5_120
    assert window_of(5_110, kind, FRESH, count=RequestCount(text=14_000)) == 5_120


def test_greetings_do_not_calibrate() -> None:
    greeted = taught(*[(5, 9)] * 20)

    assert window_of(5_110, "unknown", greeted) is None


@pytest.mark.parametrize(
    "doubtful",
    [
        RequestCount(images=30_000),
        RequestCount(documents=30_000),
        RequestCount(audio=30_000),
        RequestCount(video=30_000),
        RequestCount(reasoning=30_000),
    ],
)
def test_what_may_cost_nothing_is_left_out(doubtful: RequestCount) -> None:
    assert window_of(4_095, count=doubtful._replace(text=5_000)) is None
    assert window_of(4_095, count=doubtful._replace(text=10_000)) == 4_096


def test_tools_count_if_it_is_known_that_they_are_rendered() -> None:
    rendered = taught((2_000, 6_000), (500, 4_500), (3_000, 7_000), tools=4_000)
    left_out = taught((2_000, 2_000), (500, 500), (3_000, 3_000), tools=1_000)

    agents = RequestCount(text=3_000, tools=12_000)
    assert window_of(4_095, "unknown", HONEST, count=agents) is None
    assert window_of(4_095, "unknown", rendered, count=agents) == 4_096
    assert window_of(2_950, "unknown", left_out, count=agents) is None
    assert window_of(2_050, "ollama", FRESH, count=agents) == 4_096


# What earlier low reports say


def test_the_same_report_for_a_prompt_of_another_size_is_a_window_whatever_it_is() -> None:
    once = taught((2_000, 2_000), (9_000, 3_333))

    assert window_of(3_333, "unknown") is None
    assert window_of(3_333, "unknown", once, count=RequestCount(text=9_100)) is None
    assert window_of(3_330, "unknown", once, count=RequestCount(text=12_000)) == 3_330


def test_reports_that_grow_with_the_prompts_are_honest() -> None:
    once = taught((2_000, 2_000), (8_000, 3_500))

    assert window_of(5_119, "unknown", once, count=RequestCount(text=12_000)) is None
    assert window_of(4_095, "unknown", once, count=RequestCount(text=12_000)) == 4_096


Report = Callable[[int], int]


def noticed(kind: UpstreamKind, report: Report, sizes: list[int]) -> int | None:
    """The window that is learned in a conversation of these sizes."""
    calibration = FRESH
    for tokens in sizes:
        window = window_of(report(tokens), kind, calibration, count=RequestCount(text=tokens))
        if window is not None:
            return window
        calibration = calibration.learn(RequestCount(text=tokens), report(tokens)).calibration
    return None


@pytest.mark.parametrize("kind", ["ollama", "unknown"])
@pytest.mark.parametrize("seed", range(20))
def test_no_conversation_with_a_server_that_counts_seven_tenths_is_suspected(
    kind: UpstreamKind, seed: int
) -> None:
    chance = random.Random(seed)
    sizes = [chance.randint(100, 30_000) for _ in range(40)]

    assert noticed(kind, lambda tokens: int(0.7 * tokens), sizes) is None


@pytest.mark.parametrize("start", [200, 3_000, 8_000, 30_000])
@pytest.mark.parametrize("kind", ["ollama", "unknown"])
def test_ollama_is_noticed_as_soon_as_it_keeps_half(kind: UpstreamKind, start: int) -> None:
    sizes = [start + 700 * step for step in range(20)]

    def report(tokens: int) -> int:
        return tokens if tokens < 4_096 else 2_050

    assert noticed(kind, report, [size for size in sizes if size < 4_096]) is None
    assert noticed(kind, report, sizes) == 4_096


@pytest.mark.parametrize("seed", range(20))
def test_ollama_is_noticed_when_it_drops_messages(seed: int) -> None:
    chance = random.Random(seed)

    def report(tokens: int) -> int:
        return tokens if tokens < 8_192 else 8_192 - chance.randint(0, 900)

    window = noticed("ollama", report, [1_000 + 600 * step for step in range(60)])

    assert window is not None
    assert 7_168 <= window <= 8_192
