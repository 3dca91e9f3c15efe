"""Sealed prompts: only the owner's own are opened, whatever is sent."""

import random
import string
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import replace
from typing import Any

import pytest

from chat_proxy.compaction.contracts import sealed
from chat_proxy.compaction.contracts.sealed import (
    EXPIRED,
    FOREIGN,
    KEPT_SECONDS,
    NOT_STORED,
    PREFIX,
    UNREADABLE,
    UNVERIFIED,
    Refused,
    StoredPrompt,
    content_of,
    digest_of,
    read_stored,
    seal,
    unseal,
)
from chat_proxy.wires.contracts.contract import SealedPrompt

KEY = b"k" * 32
OTHER_KEY = b"o" * 32
NOW = 1_800_000_000
FORGERIES = 10_000
LETTERS = string.ascii_letters + string.digits + "-_"


def prompt(**changes: Any) -> SealedPrompt:
    """A small prompt."""
    items = ({"type": "message", "role": "user", "content": "Summary 😀 of it."},)
    made = SealedPrompt("responses", items, ({"role": "developer"},), NOW, "Summary of it.")
    return replace(made, **changes)


def text_of(given: SealedPrompt, key: bytes = KEY) -> str:
    content = content_of(given)
    assert content is not None
    return seal(content, key, given.created)


def packed(text: str) -> bytearray:
    encoded = text.removeprefix(PREFIX)
    return bytearray(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))


def repacked(raw: bytes) -> str:
    return PREFIX + urlsafe_b64encode(raw).decode().rstrip("=")


def test_what_was_sealed_is_opened_again() -> None:
    assert unseal(text_of(prompt()), KEY, NOW + 1) == prompt()


def test_a_lone_surrogate_is_kept() -> None:
    given = prompt(items=({"role": "user", "content": "half \ud83d"},))

    assert unseal(text_of(given), KEY, NOW) == given


@pytest.mark.parametrize("text", ["", "x", "gAAAAABk1", None, 3, ["cpx1_"], "CPX1_abc"])
def test_another_server_s_content_is_foreign(text: object) -> None:
    assert unseal(text, KEY, NOW) == FOREIGN


def test_another_owner_s_prompt_is_refused() -> None:
    assert unseal(text_of(prompt(), OTHER_KEY), KEY, NOW) == UNVERIFIED


@pytest.mark.parametrize(
    ("later", "expected"), [(KEPT_SECONDS - 1, prompt()), (KEPT_SECONDS, EXPIRED)]
)
def test_a_prompt_expires(later: int, expected: SealedPrompt | Refused) -> None:
    assert unseal(text_of(prompt()), KEY, NOW + later) == expected


def test_a_longer_life_cannot_be_written_into_it() -> None:
    raw = packed(text_of(prompt()))
    raw[10:18] = (NOW * 2).to_bytes(8, "big")

    assert unseal(repacked(bytes(raw)), KEY, NOW + KEPT_SECONDS) == UNVERIFIED


def test_ten_thousand_forgeries_are_refused() -> None:
    """Changed bits, cuts, insertions, other owners, other spellings: none is accepted."""
    dice = random.Random(27)
    genuine = [
        text_of(prompt(text=f"{number}", items=({"n": number, "text": "words " * number},)))
        for number in range(50)
    ]
    foreign = [text_of(prompt(text=f"{number}"), dice.randbytes(32)) for number in range(50)]
    accepted = []
    for number in range(FORGERIES):
        text = forged(dice, genuine, foreign, number % 8)
        if text not in genuine and not isinstance(unseal(text, KEY, NOW), Refused):
            accepted.append(text)

    assert accepted == []


def forged(dice: random.Random, genuine: list[str], foreign: list[str], kind: int) -> str:
    """A text that no owner of the key has made."""
    text, other = dice.choice(genuine), dice.choice(genuine)
    place = dice.randrange(len(PREFIX), len(text))
    forgeries = (
        lambda: flipped(text, dice),
        lambda: text[:place],
        lambda: text[:place] + dice.choice(string.printable) + text[place:],
        lambda: dice.choice(foreign),
        lambda: text[:place] + other[place:],
        lambda: PREFIX + "".join(dice.choices(LETTERS, k=dice.randrange(400))),
        lambda: text[:-1] + dice.choice(f"{LETTERS}="),
        lambda: text + dice.choice(["=", "==", "A", "\n", " ", "\x00"]),
    )
    return forgeries[kind]()


def flipped(text: str, dice: random.Random) -> str:
    """The text with one bit of its content changed."""
    raw = packed(text)
    raw[dice.randrange(len(raw))] ^= 1 << dice.randrange(8)
    return repacked(bytes(raw))


def test_a_text_over_the_limit_is_not_even_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(_: str) -> bytes:
        raise AssertionError("decoded")

    monkeypatch.setattr(sealed, "_unpacked", decode)
    monkeypatch.setattr(sealed, "MAX_CHARS", 1_000)

    assert unseal(PREFIX + "A" * 1_000, KEY, NOW) == UNVERIFIED


def test_a_large_prompt_is_stored_and_found_by_its_digest() -> None:
    noise = random.Random(1).randbytes(400_000).hex()
    given = prompt(items=({"role": "user", "content": noise},))

    content = content_of(given)
    assert content is not None
    digest = digest_of(content)
    text = seal(content, KEY, NOW, is_stored=True)

    assert len(text) < 200
    assert unseal(text, KEY, NOW) == StoredPrompt(digest)
    assert read_stored(content, digest) == given
    assert read_stored(None, digest) == NOT_STORED
    assert read_stored(zlib.compress(b"{}"), digest) == NOT_STORED


@pytest.mark.parametrize(("more", "is_sealed"), [(0, True), (1, False)])
def test_what_is_sealed_can_be_opened_again(
    more: int, is_sealed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = prompt(items=({"role": "user", "content": "a" * 1_000},))
    plain = len(zlib.decompress(content_of(given) or b""))
    monkeypatch.setattr(sealed, "MAX_PLAIN_BYTES", plain - more)

    content = content_of(given)

    assert (content is not None) is is_sealed
    if content is not None:
        assert unseal(seal(content, KEY, NOW), KEY, NOW) == given


def test_a_content_that_grows_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given = prompt(items=({"role": "user", "content": "a" * 100_000},))
    text = text_of(given)
    monkeypatch.setattr(sealed, "MAX_PLAIN_BYTES", 50_000)

    assert unseal(text, KEY, NOW) == UNREADABLE


@pytest.mark.parametrize("plain", [b"", b"[]", b"{}", b'{"wire":1}', b"[" * 100_000, b"\xff"])
def test_a_content_that_is_no_prompt_is_refused(plain: bytes) -> None:
    assert sealed.read_content(zlib.compress(plain)) == UNREADABLE


def test_a_content_that_is_not_compressed_is_refused() -> None:
    assert sealed.read_content(b"plain") == UNREADABLE
