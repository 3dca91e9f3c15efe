"""Choose where a fold ends, so that the prompt stands at its target afterwards."""

from typing import Final

from chat_proxy.chat.conversation import before_opening, start_of_last
from chat_proxy.compaction.budget import BudgetPolicy
from chat_proxy.compaction.planner.view import View
from chat_proxy.compaction.summary.notes.select import DEMANDS_SHARE

FOLD_SHARE: Final = 0.8
"""The share of the room beside the fixed part that a folded text may take at a compaction."""
TALK_DENSITY: Final = 0.45
"""The most that a folded text needs of the tokens of messages that it replaces."""
NEWS_DENSITY: Final = 0.65
"""The most that it needs of those that say something new: talk may repeat itself."""
SUMMARY_SHARE: Final = 0.35
"""The share of the largest folded text that a summary may take, however little is new."""
RESULT_DENSITY: Final = 0.08
"""The same for tool results, which repeat themselves and can be had again."""
RESULT_NEWS_DENSITY: Final = 0.5
CALL_TOKENS: Final = 30
"""The tokens for the line that names a call, whatever its result says."""
LEAST_FOLD_TOKENS: Final = 400
FRAME_TOKENS: Final = 240
"""About the tokens of a folded text without summary, words and notes, and of its places."""


def wanted_room(view: View, end: int, target: int) -> int:
    """Return the tokens that a folded text should have in place of the messages before `end`."""
    start = view.conversation.instructions
    results = view.result_sums[end]
    talk = view.sums[end] - view.sums[start] - results
    result_news = view.result_news_sums[end]
    news = view.news_sums[end] - view.news_sums[start] - result_news
    largest = max(0, int((target - view.fixed) * FOLD_SHARE))
    telling = largest * SUMMARY_SHARE + news * NEWS_DENSITY
    of_results = min(results * RESULT_DENSITY, result_news * RESULT_NEWS_DENSITY)
    of_results = max(of_results, view.result_counts[end] * CALL_TOKENS)
    useful = int(min(talk * TALK_DENSITY, telling) + of_results)
    return max(min(max(LEAST_FOLD_TOKENS, useful), largest), demanded_room(view, end))


def demanded_room(view: View, end: int) -> int:
    """Return the tokens of a folded text that has all that the user demanded before `end`.

    At most half of what instructions leave of the trigger.
    """
    demands = view.demand_sums[end] - view.demand_sums[view.conversation.instructions]
    needed = int(demands / DEMANDS_SHARE) + FRAME_TOKENS if demands else 0
    return min(needed, max(0, (view.trigger - view.fixed) // 2))


def fold_end(view: View, policy: BudgetPolicy, target: int, growth: int = 0) -> int:
    """Return the first seam at which a fold brings the prompt to the target.

    `growth` is what will be added before the fold is applied. If no seam is enough, the last
    possible one is returned; `view.folded` means that there is nothing to fold.
    """
    ends = _ends(view)
    if policy.has_own_tail:
        return _configured_end(view, policy, ends)
    for end in ends:
        left = view.fixed + view.left_after(end) + wanted_room(view, end, target)
        if left + growth <= target:
            return end
    return ends[-1] if ends else view.folded


def earlier_end(view: View, end: int) -> int | None:
    """Return the last seam before `end` at which a fold may end, None if there is none."""
    return max((seam for seam in _ends(view) if seam < end), default=None)


def later_ends(view: View, end: int) -> list[int]:
    """Return the further seams at which a fold may end, up to the newest steps."""
    return [seam for seam in _ends(view) if seam > end]


def _ends(view: View) -> list[int]:
    conversation, last = view.conversation, view.last_end
    seams = (before_opening(conversation, seam) for seam in conversation.seams if seam <= last)
    return sorted({seam for seam in seams if seam > view.folded})


def _configured_end(view: View, policy: BudgetPolicy, ends: list[int]) -> int:
    """Return the end by the operator's tail: so many turns, of at most so many tokens."""
    first = 0
    if policy.tail_turns is not None:
        first = start_of_last(view.conversation, policy.tail_turns)
    kept = [end for end in ends if end <= first] if policy.tail_turns is not None else ends[:1]
    end = kept[-1] if kept else view.folded
    if policy.tail_tokens is not None:
        for seam in ends:
            if seam >= end and view.sums[-1] - view.sums[seam] <= policy.tail_tokens:
                return seam
        return ends[-1] if ends else view.folded
    return end
