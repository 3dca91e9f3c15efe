"""Tokens are divided among the scripts of a text, and nothing is lost."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.tokens.scripts import TOKENS_MASK, Scripts, by_script, profile_of, scaled
from chat_proxy.tokens.tiktoken_counter import TiktokenCounter

IN_ONE_SCRIPT = {
    "latin": "the quick brown fox jumps over the lazy dog",
    "digits": "31415926535",
    "symbols": "-->{}[]!?",
    "cjk": "今天天气很好我们去公园散步吧。",
    "kana": "ありがとうございます",
    "hangul": "안녕하세요 반갑습니다",
    "cyrillic": "сегодня хорошая погода",
    "greek": "καλημέρα κόσμε",
    "arabic": "مرحبا بالعالم",
    "devanagari": "आज मौसम अच्छा है",
    "indic": "இன்று வானிலை நன்றாக உள்ளது",
    "thai": "วันนี้อากาศดี",
    "other": "מזג האוויר היום יפה",
}


def shares(text: str, tokens: int) -> dict[str, int]:
    classes = zip(Scripts._fields, by_script(profile_of(text, tokens), tokens), strict=True)
    return {name: share for name, share in classes if share}


@pytest.mark.parametrize("script", IN_ONE_SCRIPT)
def test_a_text_in_one_script_has_all_its_tokens_there(script: str) -> None:
    assert shares(IN_ONE_SCRIPT[script], 40) == {script: 40}


def test_a_mixed_text_is_divided_by_what_its_characters_usually_cost() -> None:
    found = shares("The word 你好 means hello, and 2026 is a year.\n", 16)

    assert found.keys() == {"latin", "cjk", "digits", "symbols"}
    assert found["latin"] >= 8
    assert found["cjk"] in (1, 2)
    assert found["digits"] >= 3


def test_code_is_known_by_its_lines_and_indentation() -> None:
    code = "def first(values):\n    for value in values:\n        return value\n" * 20

    assert shares(code, 400)["code"] > 30


@given(st.text(max_size=200), st.integers(0, 100_000))
def test_whatever_the_text_its_classes_add_up_to_its_tokens(text: str, tokens: int) -> None:
    profile = profile_of(text, tokens)

    assert profile & TOKENS_MASK == tokens
    assert min(by_script(profile, tokens)) >= 0
    assert sum(by_script(profile, tokens)) == tokens


@given(st.lists(st.text(max_size=60), max_size=20))
def test_profiles_of_texts_are_added_like_numbers(texts: list[str]) -> None:
    profiles = [profile_of(text, 2 * len(text)) for text in texts]
    tokens = sum(2 * len(text) for text in texts)

    each = [by_script(profile, profile & TOKENS_MASK) for profile in profiles]

    whole = tuple(map(sum, zip(*each, strict=True))) if each else (0,) * len(Scripts._fields)
    assert by_script(sum(profiles), tokens) == whole


def test_a_profile_can_be_of_fewer_tokens() -> None:
    profile = profile_of("Hello 你好世界 12", 100)

    half = by_script(scaled(profile, 50), 50)

    assert sum(half) == 50
    assert half[0] == pytest.approx(by_script(profile, 100)[0] / 2, abs=3)
    assert scaled(0, 7) == 7


@pytest.mark.usefixtures("untraced")
def test_it_costs_a_fraction_of_the_tokenizer(o200k: TiktokenCounter) -> None:
    text = "\n".join(f"{n}: {one}" for n, one in enumerate(IN_ONE_SCRIPT.values())) * 20
    dividing, counting = [], []
    for n in range(40):
        began = time.thread_time()
        profile_of(text, 1_000)
        divided = time.thread_time()
        o200k.count(f"{n} {text}")
        counting.append(time.thread_time() - divided)
        dividing.append(divided - began)

    print(f"dividing / counting = {min(dividing) / min(counting):.3f}")  # noqa: T201
    assert min(dividing) <= 0.2 * min(counting)
