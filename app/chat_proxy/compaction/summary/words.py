"""The user's own messages, kept word for word in a folded text."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from chat_proxy.chat.message import Message
from chat_proxy.compaction.summary.sanitise import without_payloads

FRAME_TOKENS = 12
MIN_CUT_TOKENS = 200
# A long paste in one message must not displace what was asked in all others.
LARGEST_SHARE = 0.4


class OwnWords(NamedTuple):
    """The user's texts that fit, oldest first, and how many earlier ones were left out."""

    texts: tuple[str, ...] = ()
    left_out: int = 0


def own_words(texts: Sequence[str], budget_tokens: int, count: Callable[[str], int]) -> OwnWords:
    """Return as many texts as the budget allows, the newest first; a long one is cut."""
    remaining = budget_tokens
    share = LARGEST_SHARE if len(texts) > 1 else 1
    max_per_text = max(MIN_CUT_TOKENS, int(budget_tokens * share))
    kept: list[str] = []
    for text in reversed(texts):
        if remaining <= FRAME_TOKENS:
            break
        # A long text that does not fit hides no shorter one before it.
        fitting = _fitting(text, min(remaining - FRAME_TOKENS, max_per_text), count)
        if fitting:
            remaining -= count(fitting) + FRAME_TOKENS
            kept.append(fitting)
    return OwnWords(tuple(kept[::-1]), len(texts) - len(kept))


def user_text(message: Message) -> str:
    """Return the user's text, with a placeholder for each medium and run of base64."""
    content = message.content
    parts = content if type(content) is list else [content]
    text = "\n".join(text for part in parts for text in _texts_of(part))
    return without_payloads(text).strip()


def _texts_of(part: Any) -> Iterator[str]:
    if part is None or (type(part) is dict and part.get("type") == "tool_result"):
        return
    alone = Message({"role": "user", "content": [part]})
    yield from (text for kind, text in alone.pieces() if kind == "text")
    yield from (f"[{medium.kind}: {medium.mime}]" for medium in alone.media())


def _fitting(text: str, max_tokens: int, count: Callable[[str], int]) -> str:
    """Return the text, cut in the middle if it must be, or "" if even that does not fit."""
    if not text or max_tokens <= 0:
        return ""
    tokens = count(text)
    if tokens <= max_tokens:
        return text
    if max_tokens < MIN_CUT_TOKENS:
        return ""
    return _cut(text, len(text) * max_tokens // tokens, max_tokens, count)


def _cut(text: str, keep_chars: int, max_tokens: int, count: Callable[[str], int]) -> str:
    while keep_chars > 1:
        half = keep_chars // 2
        note = f"\n[Message cut: omitted {len(text) - 2 * half} chars]\n"
        shorter = text[:half] + note + text[-half:]
        if count(shorter) <= max_tokens:
            return shorter
        keep_chars = keep_chars * 3 // 4
    return ""
