"""Sealed prompts: only what was sealed under the same key is opened, and nothing of it changed."""

from hashlib import sha256
from typing import Final

from chat_proxy.compaction.contracts.sealed import (
    PREFIX,
    Refused,
    content_of,
    read_content,
    seal,
    unseal,
)
from chat_proxy.wires.contracts.contract import SealedPrompt

KEY: Final = b"k" * 32
NOW: Final = 1_800_000_000


def open_any_seal(data: bytes) -> None:
    """Open foreign bytes, a seal of them, and the same seal spoilt, foreign, and expired."""
    text = data.decode("utf-8", "surrogateescape")
    assert isinstance(unseal(text, KEY, NOW), Refused)
    assert isinstance(unseal(PREFIX + text, KEY, NOW), Refused)
    assert isinstance(read_content(data), Refused)
    prompt = SealedPrompt("chat", ({"role": "user", "content": text},), (), NOW, text)
    content = content_of(prompt)
    assert content is not None
    sealed = seal(content, KEY, NOW)
    assert unseal(sealed, KEY, NOW) == prompt
    assert isinstance(unseal(sealed, sha256(data).digest(), NOW), Refused)
    assert isinstance(unseal(sealed, KEY, NOW + 10**8), Refused)
    place = len(data) % len(sealed)
    spoilt = sealed[:place] + ("A" if sealed[place] != "A" else "B") + sealed[place + 1 :]
    assert isinstance(unseal(spoilt, KEY, NOW), Refused)
    assert isinstance(unseal(sealed[:place], KEY, NOW), Refused)
