"""Align a checkpoint with a history that is not quite the one it was made of.

User and assistant messages must be the same. A tool result may also be what clients make of one to
save tokens, and a message may have lost its media. The client may have dropped its oldest messages.
Anything else is another history, whose summary must not be used.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from chat_proxy.compaction.recognition.digests import (
    CUT_NOTE_CHARS,
    HEAD_CHARS,
    Covered,
    Digester,
    MessageDigest,
    ResultEnds,
    cut_at,
)

LEAST_GROUPS: Final = 4
"""The groups that a history must share with a checkpoint if its oldest messages are missing."""
LEAST_BYTES: Final = 1_000
"""The length of these groups: many conversations have a few short messages in common."""
LEAST_GAP: Final = 2
"""How many messages are missing at least between the task and the rest: a step has as many."""
LEAST_RESULT_CHARS: Final = 128
"""The length of the equal results if others are reduced: all runs have some that are just "ok"."""

_PLACEHOLDER = re.compile(
    r"\[Old tool result content cleared\]"
    r"|\[*NOTE\] This file read has been removed to save space in the context window"
    r"|\[cleared\]\s*\Z"
)


class Candidate(NamedTuple):
    """The messages of a request before one of its seams, which a checkpoint may cover."""

    digests: Sequence[MessageDigest]
    groups: int
    """How many groups they are."""
    size: int
    """How many bytes they say."""
    older: bytes
    """The hash of the history before as many of them as the checkpoint has digests of."""
    text_of: Callable[[int], str]
    """Returns the normalised text of a tool result, by its position."""


def covers(
    covered: Covered,
    until: int,
    candidate: Candidate,
    digester: Digester,
    folded: int = 0,
    *,
    is_continued: bool = False,
) -> bool:
    """Return whether a checkpoint that was made of `until` messages covers a candidate's.

    Of these the checkpoint replaces the first `folded`, as far as the client still sends them.
    `is_continued`: an earlier request of this conversation, with its results, was covered by it.
    """
    given, known = candidate.digests, covered.messages
    if not known or len(given) > until:
        return False
    is_shorter = len(given) < until
    if is_shorter and not _is_enough(candidate):
        return False
    first = _first_compared(covered, until, given, folded) if is_shorter else 0
    compared = min(len(given) - first, len(known))
    if compared < len(given) - first and (is_shorter or covered.older != candidate.older):
        return False
    equal: list[int] = []
    has_reduced = False
    for back in range(1, compared + 1):
        one, other = known[-back], given[-back]
        if one == other:
            equal += [len(given) - back] if one.kind == "result" else []
        elif one.kind == "result" == other.kind:
            ends = covered.ends.get(len(known) - back)
            text = candidate.text_of(len(given) - back)
            if not (_has_lost_media(one, other) or _is_reduced(text, ends, digester)):
                return False
            has_reduced = True
        elif not _has_lost_media(one, other):
            return False
    # Calls without their results are no evidence: another run may have made the same.
    return not has_reduced or is_continued or _is_evidence(map(candidate.text_of, equal))


def _first_compared(
    covered: Covered, until: int, given: Sequence[MessageDigest], folded: int
) -> int:
    """Return the position behind the gap in a list whose oldest messages were dropped.

    Clients keep the task in front of it; one message that is gone was deleted by the user. Behind
    the gap may be results that lost their calls, by which parallel ones are told apart.
    """
    known, first = covered.messages, 0
    last = min(folded, len(given) - LEAST_GROUPS)
    if len(known) == until >= len(given) + LEAST_GAP:
        while first < last and given[first] == known[first] and given[first].kind == "user":
            first += 1
    while first < last and given[first].kind == "result":
        first += 1
    return first


def _is_evidence(results: Iterable[str]) -> bool:
    """Return whether enough of the results is there to tell a run from another."""
    shown = (len(text) for text in results if not _PLACEHOLDER.match(text))
    return any(total >= LEAST_RESULT_CHARS for total in accumulate(shown))


def _is_enough(candidate: Candidate) -> bool:
    has_user = any(digest.kind == "user" for digest in candidate.digests)
    is_long = candidate.groups >= LEAST_GROUPS and candidate.size >= LEAST_BYTES
    return has_user and is_long


def _has_lost_media(one: MessageDigest, other: MessageDigest) -> bool:
    """Return whether a client took out the media and left the rest of the message as it was."""
    return one._replace(media=other.media) == other and one.has_media and not other.has_media


def _is_reduced(text: str, ends: ResultEnds | None, digester: Digester) -> bool:
    """Return whether a text is a client's placeholder for a result, or its beginning and end."""
    if _PLACEHOLDER.match(text):
        return True
    if ends is None or len(text) >= ends.chars:
        return False
    cut = cut_at(text)
    if cut is None:
        return False
    head = text[: cut.start].rstrip(" \n.\u2026")
    heads = digester.heads(head)
    if not heads or not ends.heads.startswith(heads):
        return False
    # What follows may end the note; a longer text must be the end of the result.
    rest = len(text) - cut.stop
    if rest <= CUT_NOTE_CHARS:
        return True
    size = rest - CUT_NOTE_CHARS if rest >= CUT_NOTE_CHARS + HEAD_CHARS[0] else rest
    tails = digester.tails(text[-size:])
    return bool(tails) and ends.tails.startswith(tails)
