"""Divide a span that is too long for one query into parts, which are summarised in parallel."""

from chat_proxy.proxy.summaries.draft import Span, SummaryDraft

MAX_PARTS = 12
PART_SHARE = 0.6
"""The share of the model's window that a part may have: the rest is for instruction and answer."""


def parts_of(draft: SummaryDraft, span: Span, window: int) -> list[Span]:
    """Return the newest parts of a span, or the span itself if it is no longer than one part.

    What lies before them is only in the notes: a first contact may be many windows long.
    """
    max_tokens = int(window * PART_SHARE)
    if draft.span_tokens(span) <= max_tokens:
        return [span]
    parts: list[Span] = []
    end = start = span.end
    tokens = 0
    for seam in reversed([seam for seam in draft.conversation.seams if span.start <= seam < end]):
        group = sum(draft.sizes[seam:start])
        if tokens and tokens + group > max_tokens:
            parts.append(Span(start, end))
            end, tokens = start, 0
            if len(parts) == MAX_PARTS:
                break
        tokens += group
        start = seam
    if tokens and len(parts) < MAX_PARTS:
        parts.append(Span(start, end))
    return parts[::-1]
