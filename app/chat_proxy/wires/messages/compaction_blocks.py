"""Compaction blocks: written into answers, and found in a history that a client sends back."""

from base64 import urlsafe_b64encode
from hashlib import sha256
from itertools import takewhile
from typing import Any, Final, NamedTuple

from chat_proxy.errors import InvalidCompactionItem
from chat_proxy.wires.contracts.contract import ContractOutcome, SealedPrompt
from chat_proxy.wires.reading import Fields

BLOCK_TYPE: Final = "compaction"
ACKNOWLEDGEMENT: Final = "Understood. I go on from here."
"""What stands between two messages of the user, as strict templates want it."""
_PURPOSE: Final = b"chat-proxy/compaction-block/1"


class FoundBlock(NamedTuple):
    """The newest compaction block of a history: its message, its place in it, and the block."""

    message: int
    place: int
    block: Fields

    @property
    def param(self) -> str:
        """The name of the block in errors."""
        return f"messages.{self.message}.content.{self.place}"


def compaction_block(outcome: ContractOutcome) -> Fields:
    """Return the block of a compaction."""
    return {
        "type": BLOCK_TYPE,
        "content": outcome.text,
        "encrypted_content": outcome.sealed,
        "signature": signature_of(outcome.text, outcome.sealed),
    }


def signature_of(content: str, sealed: str) -> str:
    """Return what binds a summary to its seal; that it is genuine is shown by the seal."""
    text = content.encode("utf-8", "surrogatepass")
    fields = (_PURPOSE, text, sealed.encode("utf-8", "surrogatepass"))
    signed = b"".join(len(field).to_bytes(8, "big") + field for field in fields)
    return urlsafe_b64encode(sha256(signed).digest()).decode().rstrip("=")


def is_compaction(block: Any) -> bool:
    """Return whether a content block is a compaction."""
    return type(block) is dict and block.get("type") == BLOCK_TYPE


def newest_block(messages: Any) -> FoundBlock | None:
    """Return the newest compaction that succeeded; one without content changes nothing."""
    if type(messages) is not list:
        return None
    for index in range(len(messages) - 1, -1, -1):
        for place, block in reversed(list(enumerate(_blocks_of(messages[index])))):
            if is_compaction(block) and block.get("content") is not None:
                return FoundBlock(index, place, block)
    return None


def sealed_text(messages: Any) -> str | None:
    """Return what the newest compaction carries; None if there is none, or it carries no text."""
    found = newest_block(messages)
    sealed = found.block.get("encrypted_content") if found is not None else None
    return sealed if type(sealed) is str else None


def has_blocks(messages: Any) -> bool:
    """Return whether a history has a compaction, failed ones included."""
    if type(messages) is not list:
        return False
    return any(is_compaction(block) for message in messages for block in _blocks_of(message))


def _blocks_of(message: Any) -> list[Any]:
    content = message.get("content") if type(message) is dict else None
    return content if type(content) is list else []


def mistake_in(found: FoundBlock) -> tuple[str, str] | None:
    """Return the field of a block that is wrong and why; None if the block agrees with itself."""
    content, sealed = found.block.get("content"), found.block.get("encrypted_content")
    signature = found.block.get("signature")
    if type(content) is not str or not content:
        return f"{found.param}.content", "Input should be a string that is not empty, or null."
    if type(sealed) is not str or not sealed:
        return f"{found.param}.encrypted_content", "Field required: send the block back unchanged."
    expected = signature_of(content, sealed)
    if signature is not None and signature != expected:
        return f"{found.param}.signature", "Invalid `signature` in `compaction` block."
    return None


def unfolded(messages: list[Fields], sealed: SealedPrompt | None) -> list[Fields]:
    """Return a history in which a sealed prompt stands for its newest block and all before it.

    Blocks of compactions that failed, and of older ones, are left out. So are messages that the
    client kept from before a block that was the whole answer, if the prompt ends with them.
    Instructions in front stay as the client sends them now, or as it sent them then. Raise
    InvalidCompactionItem if the block says something else than it was sealed with.
    """
    found = newest_block(messages) if sealed is not None else None
    if sealed is None or found is None:
        return _without_blocks(messages)
    if found.block["content"] != sealed.text:
        raise InvalidCompactionItem(
            f"{found.param}.content: Invalid content in `compaction` block."
        )
    message = messages[found.message]
    rest = message["content"][found.place + 1 :]
    own = [{**message, "content": rest}] if rest else []
    behind = _without_blocks([*own, *messages[found.message + 1 :]])
    before = [*(_leading(messages[: found.message]) or sealed.instructions), *sealed.items]
    if not own:
        behind = behind[_repeated(before, behind) :]
    if behind and before and before[-1].get("role") == behind[0].get("role") == "user":
        before.append({"role": "assistant", "content": ACKNOWLEDGEMENT})
    return [*before, *behind]


def _leading(messages: list[Fields]) -> list[Fields]:
    """Return the instructions in front of a history."""
    return list(takewhile(lambda message: message.get("role") == "system", messages))


def _repeated(before: list[Fields], behind: list[Fields]) -> int:
    """Return how many of the messages behind a prompt are those that it ends with."""
    for count in range(min(len(before), len(behind)), 0, -1):
        if before[-count:] == behind[:count]:
            return count
    return 0


def _without_blocks(messages: list[Fields]) -> list[Fields]:
    """Return the messages without compaction blocks, and without those that would be empty."""
    kept = []
    for message in messages:
        content = _blocks_of(message)
        if not any(map(is_compaction, content)):
            kept.append(message)
        elif others := [block for block in content if not is_compaction(block)]:
            kept.append({**message, "content": others})
    return kept
