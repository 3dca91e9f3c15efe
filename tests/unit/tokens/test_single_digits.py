"""Models that take digits one by one are counted so, by the encoding that is in memory anyway."""

import re
from collections.abc import AsyncIterator
from math import ceil
from pathlib import Path

import orjson
import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.body.parsed_body import RequestLimits
from chat_proxy.chat.body.request import read_request
from chat_proxy.proxy.sizing.tokenizers import Tokenizers
from chat_proxy.tokens import tiktoken_counter
from chat_proxy.tokens.chunks import CHUNK_CHARS, SAMPLED_ABOVE_CHARS
from chat_proxy.tokens.overheads import CountingRules
from chat_proxy.tokens.tiktoken_counter import TiktokenCounter, load_encoding
from tests.unit.tokens.counts import counts

RANKS = Path(tiktoken_counter.__file__).parent / "ranks"
LIMITS = RequestLimits(max_depth=64, max_elements=500_000, max_messages=10_000, max_choices=16)


def counter_of(encoding: str, *, single_digits: bool = True) -> TiktokenCounter:
    counter = TiktokenCounter(encoding, single_digits=single_digits)
    assert counter.load()
    return counter


O200K = counter_of("o200k_base", single_digits=False)
BY_DIGIT = counter_of("o200k_base")


def further(text: str) -> int:
    """What single digits cost more, by the definition: a run is ceil(n / 3) tokens otherwise."""
    runs = map(len, re.findall("[0-9]+", text))
    return sum(length - ceil(length / 3) for length in runs)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("no number", 2),
        ("7", 1),
        ("42", 2),
        ("123", 3),
        ("1234", 4),
        ("12345678", 8),
        ("1.25", 4),
        ("2026-11-16", 10),
        ("in 2026", 6),
        ("x" + "9" * 100, 101),
    ],
)
def test_each_digit_is_a_token(text: str, tokens: int) -> None:
    assert BY_DIGIT.count(text) == tokens
    assert counts(BY_DIGIT, [text, text]) == [tokens, tokens]
    assert BY_DIGIT.is_known(text)


@given(st.text(alphabet="0123456789 a.,-\né中", max_size=120))
def test_only_runs_of_digits_cost_more(text: str) -> None:
    assert BY_DIGIT.count(text) == O200K.count(text) + further(text)


def test_it_is_as_if_the_encoding_split_digits() -> None:
    sha256, pattern, special_tokens = tiktoken_counter._RECIPES["o200k_base"]
    splitting = tiktoken.Encoding(
        "splits digits",
        pat_str=pattern.replace(r"\p{N}{1,3}", r"\p{N}"),
        mergeable_ranks=tiktoken_counter._ranks(RANKS / "o200k_base.tiktoken.gz", sha256),
        special_tokens=special_tokens,
    )
    text = Path(tiktoken_counter.__file__).read_text() + "1½23 ٣45² x1y22z333 4444 0x00ff 1️⃣"

    assert BY_DIGIT.count(text) == len(splitting.encode_ordinary(text))
    assert BY_DIGIT.count(text) > O200K.count(text)


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_the_encodings_have_every_number_of_up_to_three_digits(name: str) -> None:
    encoding = load_encoding(name)

    for digits in (1, 2, 3):
        numbers = [f"{number:0{digits}}" for number in range(10**digits)]
        assert {len(encoding.encode_ordinary(number)) for number in numbers} == {1}


def test_long_texts_are_counted_piece_by_piece() -> None:
    text = "line 12345 of 67\n" * 10_000
    assert CHUNK_CHARS < len(text) < SAMPLED_ABOVE_CHARS

    assert BY_DIGIT.count(text) == O200K.count(text) + further(text)


def test_samples_of_a_very_long_text_are_counted_so_too() -> None:
    text = "line 12345 of 67\n" * 300_000
    assert len(text) > SAMPLED_ABOVE_CHARS

    assert BY_DIGIT.count(text) == pytest.approx(O200K.count(text) + further(text), rel=0.01)


@pytest.fixture
async def tokenizers() -> AsyncIterator[Tokenizers]:
    tokenizers = Tokenizers()
    await tokenizers.loaded("o200k_base")
    yield tokenizers
    await tokenizers.close()


async def counted(tokenizers: Tokenizers, rules: CountingRules) -> int:
    messages = [{"role": "user", "content": "Call 0049 30 123456 at 17:45."}]
    tools = [{"type": "function", "function": {"name": "dial", "description": "Up to 4096."}}]
    request = read_request(orjson.dumps({"messages": messages, "tools": tools}), LIMITS)
    assert request.conversation is not None
    count = await tokenizers.count(request, request.conversation, rules)
    assert not count.is_guess
    return count.total


@pytest.mark.anyio
async def test_a_request_is_counted_as_its_model_takes_digits(tokenizers: Tokenizers) -> None:
    more = further("Call 0049 30 123456 at 17:45.") + further("Up to 4096.")

    for _ in range(2):  # neither has the other's memory
        grouped = await counted(tokenizers, CountingRules())
        assert await counted(tokenizers, CountingRules(single_digits=True)) == grouped + more


@pytest.mark.anyio
async def test_an_encoding_is_built_once_for_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[Path] = []
    build = tiktoken_counter._ranks

    def noted(file: Path, sha256: str) -> dict[bytes, int]:
        built.append(file)
        return build(file, sha256)

    monkeypatch.setattr(tiktoken_counter, "_ranks", noted)
    load_encoding.cache_clear()
    tokenizers = Tokenizers()

    by_digit = tokenizers.of(CountingRules("cl100k_base", single_digits=True))._counter
    plain = await tokenizers.loaded("cl100k_base")
    await tokenizers.close()

    assert len(built) == 1
    assert plain is not by_digit
    assert plain.is_loaded
    assert by_digit._encoding is plain._encoding
