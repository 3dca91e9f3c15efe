"""What a session must not forget, and how much of it a prompt still has."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

Source = Literal["user", "found"]


@dataclass(frozen=True, slots=True)
class Needle:
    """A word that stands nowhere else in its session, and the message in which it first stands.

    `user`: said by the user. `found`: in a tool's result, and then told by the assistant.
    """

    key: str
    planted: int
    source: Source


def recall(needles: Iterable[Needle], messages: int, prompt: str | None) -> float | None:
    """Return the share of what was planted in so many messages that the prompt has.

    A request that was refused has no prompt: nothing of it can be answered.
    """
    planted = [needle for needle in needles if needle.planted < messages]
    if not planted:
        return None
    return fmean(prompt is not None and needle.key in prompt for needle in planted)


def checkpoints(requests: int, number: int = 10) -> list[int]:
    """Return the requests, counted from 0, at which recall is asked for; the last is the end."""
    return sorted({max(0, requests * part // number - 1) for part in range(1, number + 1)})


def mean(shares: Sequence[float | None]) -> float:
    """Return the mean of what could be asked for."""
    known = [share for share in shares if share is not None]
    return fmean(known) if known else 1.0
