"""What a prompt shows of a history, and how often each fact was folded."""

from collections.abc import Iterable, Sequence

from bench.conversation.loss.facts import Fact
from bench.conversation.prompt import Json, images_of, text_of

LEAST_LINE = 20
_LONGEST_ADDITION = 200
_COMPARED = 200


def boundary(history: Sequence[Json], prompt: Sequence[Json]) -> int:
    """Return how many messages of the history the prompt no longer shows at their own place.

    Both are compared from their ends: results and calls by their ids, because their texts may be
    shortened, and everything else by its text.
    """
    shown = 0
    for said, sent in zip(reversed(history), reversed(prompt), strict=False):
        if not _is_same(said, sent):
            break
        shown += 1
    return len(history) - shown


def is_about_image(history: Sequence[Json]) -> bool:
    """Tell whether the user brings an image in the current turn, which may hide older turns."""
    newest = next((it for it in reversed(history) if it["role"] == "user"), None)
    return newest is not None and bool(images_of(newest))


def unseen_share(history: Iterable[Json], prompt: str, shown: set[str]) -> float:
    """Return the share of tool output that left the prompt without any summariser seeing it.

    It is counted in characters of whole lines of more than 20 characters.
    """
    known = {line.strip() for line in prompt.splitlines()}
    left = [
        line
        for message in history
        if message["role"] == "tool"
        for line in map(str.strip, text_of(message).splitlines())
        if len(line) > LEAST_LINE and line not in known
    ]
    unseen = sum(len(line) for line in left if line not in shown)
    return unseen / max(1, sum(map(len, left)))


class FoldAges:
    """Knows how many folds each fact has behind it.

    A fold is a prompt that shows less of the history at its own place than any prompt before it.
    """

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._ages = dict.fromkeys(facts, 0)
        self._planted: dict[Fact, int] = {}
        self._boundary = 1

    def plant(self, facts: Iterable[Fact], index: int) -> None:
        """Note the message in which facts stand."""
        self._planted.update(dict.fromkeys(facts, index))

    def folded_now(self, history: Sequence[Json], prompt: Sequence[Json]) -> dict[Fact, int]:
        """Return the facts that this prompt folds, each with the number of its folds until now."""
        now = 0 if is_about_image(history) else boundary(history, prompt)
        if now <= self._boundary:
            return {}
        self._boundary = now
        folded = [fact for fact, index in self._planted.items() if index < now]
        for fact in folded:
            self._ages[fact] += 1
        return {fact: self._ages[fact] for fact in folded}

    def youngest(self) -> int:
        """Return how many folds every fact has behind it at least."""
        return min(self._ages.values())


def _is_same(said: Json, sent: Json) -> bool:
    if said["role"] != sent["role"]:
        return False
    if said["role"] == "tool":
        return bool(said.get("tool_call_id") == sent.get("tool_call_id"))
    if said.get("tool_calls"):
        return _call_ids(said) == _call_ids(sent)
    text, other = text_of(said).strip(), text_of(sent).strip()
    return text[:_COMPARED] in other and len(other) <= len(text) + _LONGEST_ADDITION


def _call_ids(message: Json) -> list[str]:
    return [call["id"] for call in message.get("tool_calls") or []]
