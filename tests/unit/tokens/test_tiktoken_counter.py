import gzip
import random
import threading
from importlib import import_module
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_proxy.tokens import tiktoken_counter
from chat_proxy.tokens.chunks import CHUNK_CHARS, SAMPLED_ABOVE_CHARS, chunks_of
from chat_proxy.tokens.tiktoken_counter import RanksUnusable, TiktokenCounter, load_encoding
from chat_proxy.tokens.token_counter import rough_tokens
from tests.unit.tokens.counts import counts

RANKS = Path(tiktoken_counter.__file__).parent / "ranks"

LANGUAGES = {
    "English": "The quick brown fox doesn't jump; it's 12,345 times too lazy, they'll say.",
    "German": "Über die Straße läuft der größte Fußgänger, während es Äpfel regnet.",
    "French": "L'été dernier, où étiez-vous ? J'ai reçu « beaucoup » de lettres.",
    "Spanish": "¿Cuántos años tiene el niño? ¡Mañana cumplirá veintidós!",
    "Russian": "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Ukrainian": "Чуєш їх, доцю, га? Кумедна ж ти, прощайся без ґольфів!",  # noqa: RUF001
    "Greek": "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία κάθε μέρα.",
    "Arabic": "صِف خَلقَ خَودٍ كَمِثلِ الشَمسِ إِذ بَزَغَت",
    "Hebrew": "דג סקרן שט לו בים זך אך לפתע פגש חבורה נחמדה",
    "Hindi": "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश",
    "Bengali": "আমি বাংলায় গান গাই, আমি বাংলার গান গাই।",
    "Tamil": "யாதும் ஊரே யாவரும் கேளிர் தீதும் நன்றும் பிறர்தர வாரா",
    "Thai": "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน",
    "Chinese": "视野无限广，窗外有蓝天。今天的会议改到下午三点半举行。",  # noqa: RUF001
    "Japanese": "いろはにほへと ちりぬるを、吾輩は猫である。カタカナも少し。",
    "Korean": "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다.",
    "Vietnamese": "Tiếng Việt có sáu thanh điệu và rất nhiều dấu.",
}
OTHERS = {
    "Python": 'def f(x: int) -> str:\n    """Doc."""\n    return f"{x:>10}"  # noqa\n\n\n',
    "JSON": '{"id": 10482, "values": [1.5, -2e9, null, true], "path": "C:\\\\tmp\\\\a"}\n',
    "emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 😀😀😀 ✈️ 1️⃣ 👍🏽",
    "blanks": "a   b\t\t\tc      \n\n\n   \r\n\t x\u00a0\u00a0y   ",
    "special tokens": "<|endoftext|> <|im_start|>user<|im_end|> <|fim_prefix|><|endofprompt|>",
    "surrogates": "half an emoji \ud83d and \udc00 more",
    "paths": "\n/usr/lib\n//comment\n\n/x\n  /y",
    "nothing": "",
}
TEXTS = LANGUAGES | OTHERS


def whole(counter: TiktokenCounter, text: str) -> int:
    encoding = counter._encoding
    assert encoding is not None
    return len(encoding.encode_ordinary(text))


@pytest.mark.parametrize(
    ("name", "cached_as"),
    [
        ("o200k_base", "fb374d419588a4632f3f557e76b4b70aebbca790"),
        ("cl100k_base", "9b5ad71b2ce5302211f9c61530b329a4922fc6a4"),
    ],
)
def test_the_vendored_encodings_are_tiktokens_own(
    name: str, cached_as: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BUGS 47: offline, and the same as what tiktoken would have downloaded."""
    content = gzip.decompress((RANKS / f"{name}.tiktoken.gz").read_bytes())
    (tmp_path / cached_as).write_bytes(content)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))

    published = import_module("tiktoken_ext.openai_public")
    theirs = getattr(published, name)()

    ours = load_encoding(name)
    assert ours.name == theirs["name"]
    assert ours._pat_str == theirs["pat_str"]
    assert ours._special_tokens == theirs["special_tokens"]
    file, sha256 = RANKS / f"{name}.tiktoken.gz", tiktoken_counter._RECIPES[name].sha256
    assert tiktoken_counter._ranks(file, sha256) == theirs["mergeable_ranks"]


@pytest.mark.parametrize("kind", TEXTS)
def test_counts_are_exact_in_every_language_and_form(
    kind: str, o200k: TiktokenCounter, cl100k: TiktokenCounter
) -> None:
    for counter in (o200k, cl100k):
        assert counter.count(TEXTS[kind]) == whole(counter, TEXTS[kind])
        assert counts(counter, [TEXTS[kind]] * 2) == [whole(counter, TEXTS[kind])] * 2


@pytest.mark.parametrize("name", ["o200k", "cl100k"])
def test_chunking_drifts_by_a_few_tokens_in_a_million(
    name: str, request: pytest.FixtureRequest
) -> None:
    """FACTS §1: 35 tokens in 4.5 million at chunks of 32 K."""
    counter: TiktokenCounter = request.getfixturevalue(name)
    chance = random.Random(7)
    texts = []
    for _ in range(24):
        pieces = chance.choices(list(TEXTS.values()), k=2_400)
        texts.append("".join(piece + chance.choice(["\n", "\n\n", " ", "\n "]) for piece in pieces))

    chunked = sum(counter.count(text) for text in texts)

    exact = sum(whole(counter, text) for text in texts)
    assert exact > 1_000_000
    assert abs(chunked - exact) <= exact * 2e-5


def test_a_text_without_line_breaks_is_cut_hard_and_drifts_by_a_token_a_cut(
    o200k: TiktokenCounter,
) -> None:
    text = "supercalifragilistic " * 20_000

    assert abs(o200k.count(text) - whole(o200k, text)) <= len(text) // CHUNK_CHARS + 1


@given(st.text(alphabet="ab \n/\t.é中", min_size=0, max_size=400), st.integers(1, 50))
def test_chunks_are_the_text_again(piece: str, times: int) -> None:
    text = piece * times * 20

    chunks = list(chunks_of(text))

    assert "".join(chunks) == text
    assert all(0 < len(chunk) <= CHUNK_CHARS for chunk in chunks)


PATHOLOGICAL = {
    "blanks": " ",
    "tabs": "\t",
    "hard blanks": "\u00a0",
    "line breaks": "\n",
    "lines and blanks": "\n ",
    "a": "a",
    "equal signs": "=",
    "Han": "中",
    "marks": "\u0301",
    "quotes": "'s",
    "surrogates": "\ud800",
}


@pytest.mark.parametrize("kind", PATHOLOGICAL)
def test_a_million_of_the_same_character_neither_panics_nor_takes_long(
    kind: str, o200k: TiktokenCounter, cl100k: TiktokenCounter
) -> None:
    """BUGS 47's sister: tiktoken panics with a BaseException on a million blanks."""
    text = (PATHOLOGICAL[kind] * 1_000_000)[:1_000_000] + "x"

    assert 0 < o200k.count(text) <= 4_000_000
    assert 0 < cl100k.count(text) <= 4_000_000


def test_beyond_four_million_characters_samples_are_extrapolated(o200k: TiktokenCounter) -> None:
    text = "The same old words, over and over again.\n" * 120_000
    assert len(text) > SAMPLED_ABOVE_CHARS

    assert o200k.count(text) == pytest.approx(120_000 * 10, rel=0.02)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(codec=None, categories=None), max_size=300))
def test_no_text_makes_counting_raise(text: str) -> None:
    unloaded = TiktokenCounter("o200k_base")
    for counter in (_LOADED, unloaded):
        assert 0 <= counter.count(text) <= 4 * len(text)
    assert not unloaded.is_known(text)


_LOADED = TiktokenCounter("o200k_base")
_LOADED.load()


def test_a_text_is_known_once_it_was_counted() -> None:
    counter = TiktokenCounter("cl100k_base")
    counter.load()
    assert not counter.is_known("hello world")

    counted = counter.count("hello world")

    assert counter.is_known("".join(["hello", " world"]))
    assert counted == 2


def test_a_text_that_stands_several_times_is_counted_once(
    o200k: TiktokenCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []
    counter = TiktokenCounter("o200k_base")
    counter.load()
    count = counter._tokens_in

    def counting(encoding: tiktoken.Encoding, text: str) -> int:
        counted.append(text)
        return count(encoding, text)

    monkeypatch.setattr(counter, "_tokens_in", counting)

    assert counts(counter, ["one", "two", "one"]) == counts(o200k, ["one", "two", "one"])
    assert counted == ["one", "two"]


def test_the_cache_is_bounded_and_keeps_what_is_asked_for(o200k: TiktokenCounter) -> None:
    counter = TiktokenCounter("o200k_base", max_texts=64)
    counter._encoding = o200k._encoding
    counter.count("the favourite")

    for number in range(1_000):
        counter.count(f"passing by {number}")
        assert counter.is_known("the favourite")
        assert len(counter._known) <= 64

    assert not counter.is_known("passing by 1")


def test_threads_may_count_together(o200k: TiktokenCounter) -> None:
    counter = TiktokenCounter("o200k_base", max_texts=32)
    counter._encoding = o200k._encoding
    texts = [f"text number {number}" for number in range(500)]
    expected = [o200k.count(text) for text in texts]
    found: list[list[int]] = []

    threads = [
        threading.Thread(target=lambda: found.append(counts(counter, texts))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [expected] * 6


def test_before_loading_counts_are_guesses_and_not_remembered() -> None:
    counter = TiktokenCounter("o200k_base")

    assert not counter.is_loaded
    assert counter.count("hello world") == rough_tokens("hello world")
    assert counts(counter, ["hello", ""]) == [2, 0]
    assert counter.remembered("key", lambda: 7) == 7
    assert counter.remembered("key", lambda: 8) == 8
    assert not counter.is_known("hello world")


def test_work_under_a_key_is_done_once(o200k: TiktokenCounter) -> None:
    assert o200k.remembered(("some", "key"), lambda: 7) == 7
    assert o200k.remembered(("some", "key"), lambda: 8) == 7


def test_an_unknown_encoding_is_a_failure_and_not_an_exception() -> None:
    counter = TiktokenCounter("p50k_base")

    assert not counter.load()
    assert counter.failure == "there are no ranks for 'p50k_base'"
    assert counter.count("still works") > 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read"),
        (b"not gzip", "cannot be read"),
        (gzip.compress(b"x" * 10_000)[:-30], "cannot be read"),
        (gzip.compress(b"aGk= 0\n"), "wrong content"),
    ],
    ids=["missing", "not gzip", "cut off", "other words"],  # gzip's bytes tell the time
)
def test_damaged_ranks_are_refused(content: bytes | None, reason: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "o200k_base.tiktoken.gz").write_bytes(content)

    with pytest.raises(RanksUnusable, match=reason):
        load_encoding("o200k_base", tmp_path)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_guess_is_rather_too_high_and_never_far_too_low(
    language: str, o200k: TiktokenCounter
) -> None:
    """BUGS 18: characters divided by four take Chinese for half of what it is."""
    text = LANGUAGES[language] * 20

    assert 0.75 <= rough_tokens(text) / o200k.count(text) <= 3.6


def test_loading_again_keeps_the_encoding(o200k: TiktokenCounter) -> None:
    before: tiktoken.Encoding | None = o200k._encoding

    assert o200k.load()
    assert o200k._encoding is before
