"""Divide a span that is too long for one query into parts, which are summarised in parallel."""

from math import ceil

from chat_proxy.proxy.summaries.draft import Span, SummaryDraft

MAX_PARTS = 12
PART_SHARE = 0.6
"""The share of the model's window that a part may have: the rest is for instruction and answer."""

FILLED_SHARE = 0.85
"""How full parts are, so that messages which cannot be divided leave no short rest."""


def parts_of(draft: SummaryDraft, span: Span, window: int) -> list[Span]:
    """Return the newest parts of a span, or the span itself if it is no longer than one part.

    They are about equally long: a summary of a short rest would win nothing. What lies before them
    is only in the notes: a first contact may be many windows long.
    """
    max_tokens = max(1, int(window * PART_SHARE))
    total = draft.span_tokens(span)
    if total <= max_tokens:
        return [span]
    share = total / ceil(total / (max_tokens * FILLED_SHARE))
    parts: list[Span] = []
    end = start = span.end
    tokens = seen = 0
    for seam in reversed([seam for seam in draft.conversation.seams if span.start <= seam < end]):
        group = sum(draft.sizes[seam:start])
        is_enough = seen >= share * (len(parts) + 1) or tokens + group > max_tokens
        if tokens and is_enough:
            parts.append(Span(start, end))
            end, tokens = start, 0
            if len(parts) == MAX_PARTS:
                break
        tokens += group
        seen += group
        start = seam
    if tokens and len(parts) < MAX_PARTS:
        parts.append(Span(start, end))
    return parts[::-1]
