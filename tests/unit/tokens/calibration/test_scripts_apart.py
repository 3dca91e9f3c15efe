"""What a script costs is learned from texts in that script, and from no others."""

import random
from collections.abc import Iterator

import pytest

from chat_proxy.tokens.calibration.calibration import Calibration
from chat_proxy.tokens.calibration.vocabularies import COSTS
from chat_proxy.tokens.counter import RequestCount
from chat_proxy.tokens.scripts import Scripts

MIXTURES = {
    "prose": {"latin": 0.88, "symbols": 0.1, "code": 0.02},
    "code": {"latin": 0.55, "code": 0.13, "symbols": 0.27, "digits": 0.05},
    "results": {"latin": 0.45, "symbols": 0.3, "digits": 0.22, "code": 0.03},
    "chinese": {"cjk": 0.9, "latin": 0.05, "symbols": 0.05},
    "japanese": {"cjk": 0.4, "kana": 0.53, "symbols": 0.07},
    "korean": {"hangul": 0.93, "symbols": 0.07},
    "russian": {"cyrillic": 0.92, "symbols": 0.08},
    "arabic": {"arabic": 0.93, "symbols": 0.07},
    "hindi": {"devanagari": 0.92, "symbols": 0.05, "latin": 0.03},
}
ORDERS = 200
VOCABULARIES = ("qwen", "llama3", "llama4", "tekken", "deepseek", "sentencepiece")
ENGLISH = RequestCount(text=80, overhead=13)


def in_script(kind: str, tokens: int, chance: random.Random | None = None) -> RequestCount:
    """Return the count of a text of this kind, in a mixture of scripts near the usual one."""
    profile = tokens
    for script, share in MIXTURES[kind].items():
        if script != "latin":
            spread = chance.uniform(0.85, 1.15) if chance else 1
            profile += int(share * spread * tokens) << 32 * Scripts._fields.index(script)
    return RequestCount(text=tokens, overhead=5 * 3 + 3, scripts=profile)


def real(count: RequestCount, costs: Scripts, noise: float = 1.0) -> int:
    """Return what a server of this vocabulary reports, with a template of twenty tokens."""
    parts = Calibration.fresh("exact")
    exact = parts._replace(factors=parts.factors._replace(**costs._asdict(), fixed=20))
    return round(exact.estimate(count) * noise)


def orders(vocabulary: str, seed: int) -> Iterator[tuple[str, RequestCount, int]]:
    """Yield requests of all kinds, one kind after the other or mixed, with their real tokens."""
    chance = random.Random(seed)
    kinds = [*MIXTURES] * 7
    if seed % 2:
        chance.shuffle(kinds)
    else:
        kinds.sort(key=chance.sample([*MIXTURES], len(MIXTURES)).index)
    # A server's costs are near those of its vocabulary, and its own.
    costs = Scripts(*[cost * chance.uniform(0.94, 1.06) for cost in COSTS[vocabulary]])
    for kind in kinds:
        count = in_script(kind, int(chance.lognormvariate(7, 0.8)) + 60, chance)
        yield kind, count, real(count, costs, chance.uniform(0.985, 1.015))


def errors(vocabulary: str, assumed: str, seed: int) -> tuple[list[float], list[float]]:
    """Return the errors after twenty requests, and those of the first request of each kind."""
    calibration, seen = Calibration.fresh(assumed), set[str]()
    late, first = [], []
    for at, (kind, count, tokens) in enumerate(orders(vocabulary, seed)):
        error = abs(calibration.estimate(count) - tokens) / tokens
        if kind not in seen and at:
            first.append(error)
        elif at >= 20:
            late.append(error)
        seen.add(kind)
        calibration = calibration.learn(count, tokens).calibration
    return late, first


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_in_all_orders_of_scripts_the_error_is_below_three_percent(vocabulary: str) -> None:
    found = [errors(vocabulary, vocabulary, seed) for seed in range(ORDERS // 4)]

    late = percentile([error for run, _ in found for error in run], 0.95)
    worst = max(error for _, firsts in found for error in firsts)
    print(f"p95 {late:.4f}, worst first {worst:.3f}")  # noqa: T201
    assert late <= 0.03
    assert worst <= 0.25


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_a_vocabulary_of_unknown_name_is_learned_as_well(vocabulary: str) -> None:
    found = [errors(vocabulary, "", seed) for seed in range(ORDERS // 8)]

    assert percentile([error for run, _ in found for error in run], 0.95) <= 0.03


def test_chinese_does_not_move_english() -> None:
    """Issue: after 20 Chinese chats a prompt of 83 tokens was estimated at 394."""
    costs = COSTS["smollm"]
    calibration = Calibration.fresh()
    for tokens in (300, 1_200, 2_500, 800) * 5:
        count = in_script("chinese", tokens)
        calibration = calibration.learn(count, real(count, costs)).calibration

    assert calibration.factors.cjk == pytest.approx(costs.cjk, rel=0.05)
    assert calibration.estimate(ENGLISH) == pytest.approx(real(ENGLISH, costs), rel=0.25)
    english = in_script("prose", 3_000)
    calibration = calibration.learn(english, real(english, costs)).calibration
    assert calibration.estimate(ENGLISH) == pytest.approx(real(ENGLISH, costs), rel=0.1)


def test_what_was_learned_of_english_stays_while_others_speak_chinese() -> None:
    calibration = Calibration.fresh()
    for tokens in (300, 1_200, 2_500, 800) * 5:
        count = in_script("prose", tokens)
        calibration = calibration.learn(count, real(count, COSTS["qwen"])).calibration
    before = calibration.estimate(in_script("prose", 4_000))
    for tokens in (300, 1_200, 2_500, 800) * 25:
        count = in_script("chinese", tokens)
        calibration = calibration.learn(count, real(count, COSTS["smollm"])).calibration

    assert calibration.estimate(in_script("prose", 4_000)) == pytest.approx(before, rel=0.02)


def test_one_odd_report_in_a_script_hardly_moves_it() -> None:
    calibration = Calibration.fresh("qwen")
    count = in_script("hindi", 2_000)
    for _ in range(10):
        calibration = calibration.learn(count, real(count, COSTS["qwen"])).calibration

    odd = calibration.learn(count, 2 * real(count, COSTS["qwen"])).calibration

    assert odd.estimate(count) == pytest.approx(calibration.estimate(count), rel=0.05)


def test_a_name_that_is_wrong_is_unlearned() -> None:
    """A server that calls its model `qwen` and has another vocabulary."""
    calibration = Calibration.fresh("qwen")
    found = []
    for seed in range(3):
        for _, count, tokens in orders("sentencepiece", seed):
            found.append(abs(calibration.estimate(count) - tokens) / tokens)
            calibration = calibration.learn(count, tokens).calibration

    assert percentile(found[len(MIXTURES) * 7 :], 0.9) <= 0.07


@pytest.mark.parametrize("fixed", [0, 25, 54, 200])
@pytest.mark.parametrize("vocabulary", ["", "qwen", "smollm"])
def test_one_greeting_tells_what_the_template_adds(vocabulary: str, fixed: int) -> None:
    """Issue: after one "hi" the next chat was estimated at 83 of 137."""
    greeting = RequestCount(text=1, overhead=8, scripts=1)
    calibration = Calibration.fresh(vocabulary)
    costs = COSTS[vocabulary].latin

    calibration = calibration.learn(greeting, round(9 + fixed)).calibration

    chat = RequestCount(text=70, overhead=13, scripts=70)
    assert calibration.estimate(chat) == pytest.approx(70 * costs + 13 + fixed, rel=0.12)


def test_an_engines_own_count_is_believed_as_it_is() -> None:
    calibration = Calibration.fresh("qwen")
    count = in_script("prose", 2_000)
    for _ in range(10):
        calibration = calibration.learn(count, real(count, COSTS["qwen"])).calibration

    told = calibration.learn_exactly(count, 3_000)

    assert told.estimate(count) > calibration.learn(count, 3_000).calibration.estimate(count)
    assert calibration.learn_exactly(count, 10**9) is calibration
    assert calibration.learn_exactly(count._replace(is_guess=True), 3_000) is calibration
