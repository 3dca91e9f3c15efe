"""The planner: try the forms of a conversation in order of loss, take the first that fits.

    unchanged               already small enough
    superseded              results that a later one replaces become lines
    media thinned           older media become notes, oldest first; all text stays
    media scaled            images that stay are scaled down, to half of the room at most
    folded                  older messages become a summary, the tail stays whole
    folded and aged         old results in the tail are shortened, then become lines
    folded further          more of the tail is folded
    fold cut                the folded text gets what is left
    newest steps shortened  their results get equal shares of the room
    media noted             images are scaled further; older media, then current ones, become notes
    smallest                instructions, the current message, the newest step at its smallest

The first seven pursue the target; a deeper form is taken only as far as the window demands, because
it loses what the model is working with.
"""

from typing import Final, NamedTuple

from chat_proxy.compaction.ageing.policy import AgeingPolicy
from chat_proxy.compaction.budget import BudgetPolicy
from chat_proxy.compaction.planner.plan import Plan, Unfit
from chat_proxy.compaction.planner.scaling import with_scaled_media
from chat_proxy.compaction.planner.tail import (
    LEAST_FOLD_TOKENS,
    demanded_room,
    earlier_end,
    fold_end,
    later_ends,
    wanted_room,
)
from chat_proxy.compaction.planner.view import View
from chat_proxy.compaction.planner.working import WorkingPlan

LEAST_ROOM: Final = 160
SMALLEST_ROOM: Final = 104
"""The tokens of the shortest folded text, with its marker and the place of the originals."""
FOLD_DIVISOR: Final = 6
"""What instructions leave of the limit, divided by this, is kept for the folded text."""
SMALLEST_CALL_BYTES: Final = 400


class Goal(NamedTuple):
    """The sizes that a plan must reach, in tokens."""

    target: int
    """Where a compaction ends."""
    limit: int
    """The longest prompt that leaves space for an ordinary answer."""
    hard_limit: int
    """The longest prompt that leaves space for the shortest answer."""


class FoldOption(NamedTuple):
    """What a plan may fold."""

    end: int | None = None
    """Where a summary that is ready ends; None: the planner chooses the end itself."""
    is_allowed: bool = False
    """Whether messages may be folded at all; without a summary, notes stand for them."""
    room: int | None = None
    """The tokens of the folded text, if it is written already."""
    may_age: bool = False
    """Whether results may age without a fold, when messages may not be folded."""


NO_FOLD: Final = FoldOption()


class Planner:
    """Plan one conversation under one policy."""

    def __init__(self, view: View, ageing: AgeingPolicy, budget: BudgetPolicy) -> None:
        self._view = view
        self._ageing = ageing
        self._budget = budget

    def plan(self, goal: Goal, option: FoldOption = NO_FOLD) -> Plan | None:
        """Return the first form that meets the goal, None if there is none."""
        working = WorkingPlan(self._view, self._ageing)
        if working.tokens <= goal.target:
            return working.plan("unchanged")
        if self._ageing.enabled:
            working.age_superseded()
            if working.tokens <= goal.target:
                return working.plan("superseded")
        thinned = self._thinned(working, goal.target)
        if thinned.tokens <= goal.target:
            return thinned.plan("media thinned")
        view = with_scaled_media(self._view, self._ageing, goal.target)
        if view is not self._view:
            return Planner(view, self._ageing, self._budget).plan_scaled(goal, option)
        return self._deeper(working, goal, option)

    def plan_scaled(self, goal: Goal, option: FoldOption) -> Plan | None:
        """Return the first form with scaled images that meets the goal, None if there is none."""
        working = WorkingPlan(self._view, self._ageing)
        if self._ageing.enabled:
            working.age_superseded()
        thinned = self._thinned(working, goal.target)
        if thinned.tokens <= goal.target:
            return thinned.plan("media scaled")
        return self._deeper(working, goal, option)

    def _deeper(self, working: WorkingPlan, goal: Goal, option: FoldOption) -> Plan | None:
        """Return the first form that loses text, if that is allowed."""
        if not option.is_allowed:
            return self._aged(working, goal) if option.may_age else None
        return self._folded(working, goal, option) or self._last_forms(working, goal)

    def _thinned(self, working: WorkingPlan, target: int) -> WorkingPlan:
        """Return the plan with older media noted, oldest first, as far as the target needs it."""
        thinned = working.copy()
        if self._ageing.enabled:
            thinned.age_media(target - thinned.room)
        return thinned

    def smallest(self) -> Plan:
        """Return the smallest form that there is."""
        working = WorkingPlan(self._view, self._ageing)
        return self._smallest(working, SMALLEST_ROOM)

    def unfit(self) -> Unfit:
        """Return the numbers that say why not even the smallest form fits."""
        plan = self.smallest()
        fixed = self._view.fixed
        return Unfit(fixed, max(0, plan.tokens - fixed), self._view.budget.window)

    def end_for_summary(self, target: int, growth: int) -> int:
        """Return where a summary should end that is written now and applied after `growth`."""
        return self._end(target, growth)

    def _end(self, target: int, growth: int = 0) -> int:
        """Return where a fold ends: one step earlier if that step, shortened, fills the target."""
        view = self._view
        end = fold_end(view, self._budget, target, growth)
        before = earlier_end(view, end)
        if before is None or self._budget.has_own_tail or not self._ageing.enabled:
            return end
        room = wanted_room(view, before, target)
        working = WorkingPlan(view, self._ageing)
        working.end = before
        working.age_results(target - growth - room)
        fills = working.rest + room + growth <= target
        return before if fills and not working.leaves_lines else end

    def idle(self) -> Plan | None:
        """Return the plan for a conversation whose upstream cache is lost: old results age."""
        working = WorkingPlan(self._view, self._ageing)
        before = working.tokens
        working.age_superseded()
        working.age_results(0)
        won = before - working.tokens
        return working.plan("aged") if won >= self._ageing.minimum(self._view.budget) else None

    def _aged(self, working: WorkingPlan, goal: Goal) -> Plan | None:
        """Return the plan without a fold: only results and media age."""
        working = self._with_ageing(working, goal.target - working.room)
        if working.tokens > goal.limit:
            working.scale_media(goal.limit - working.room)
        if working.tokens > goal.limit:
            working.note_older_media()
        return working.plan("aged") if working.tokens <= goal.limit else None

    def _with_ageing(self, working: WorkingPlan, max_rest: int) -> WorkingPlan:
        """Return the plan with old media and results aged, if that is allowed and saves enough.

        A fold breaks the upstream's cache anyway: there only a minimum that was set counts.
        """
        if not self._ageing.enabled:
            return working
        aged = working.copy()
        aged.age_media(max_rest)
        aged.age_results(max_rest)
        least = self._ageing.minimum(self._view.budget)
        is_bound = self._ageing.is_minimum_literal or working.end == self._view.folded
        return working if is_bound and working.rest - aged.rest < least else aged

    def _folded(self, working: WorkingPlan, goal: Goal, option: FoldOption) -> Plan | None:
        """Return a plan with a fold that reaches the target, or at least leaves an answer."""
        view = self._view
        end = self._end(goal.target) if option.end is None else option.end
        if end <= view.folded:
            return None
        working.end = end
        wanted = option.room or wanted_room(view, end, goal.target)
        floor = max(LEAST_FOLD_TOKENS, demanded_room(view, end))
        least = wanted if option.room else max(wanted // 2, min(wanted, floor))
        if working.rest + least <= goal.target:
            return working.plan("folded", goal.target - working.rest)
        working = self._with_ageing(working, goal.target - least)
        if working.rest + wanted <= goal.limit:
            # What the folded text needs counts more than the target, up to the trigger.
            above = min(wanted, view.trigger - working.rest)
            return working.plan("folded and aged", max(least, above, goal.target - working.rest))
        for further in later_ends(view, end):
            working.end = further
            if working.rest + wanted <= goal.limit:
                return working.plan("folded further", wanted)
        return None

    def _last_forms(self, working: WorkingPlan, goal: Goal) -> Plan | None:
        """Return the first form that fits at all, each with a greater loss."""
        view = self._view
        working.end = max(working.end, view.last_end)
        has_fold = working.end > view.conversation.instructions
        share = self._fold_share(goal, working.end) if has_fold else 0
        room = goal.limit - working.rest
        if has_fold and room >= (share if view.newest_steps else LEAST_ROOM):
            return working.plan("fold cut", room)
        least = LEAST_ROOM if has_fold else 0
        working.shorten_newest(goal.limit - share)
        if working.rest + least <= goal.limit:
            return working.plan("newest steps shortened", self._room(working, goal.limit))
        working.scale_media(goal.limit - least)
        if working.rest + least > goal.limit:
            working.note_older_media()
            working.note_current_media(goal.limit - least)
        if working.rest + least <= goal.limit:
            return working.plan("media noted", self._room(working, goal.limit))
        plan = self._smallest(working, SMALLEST_ROOM, goal.hard_limit)
        return plan if plan.tokens <= goal.hard_limit else None

    def _fold_share(self, goal: Goal, end: int) -> int:
        """Return the room that a folded text has beside the newest steps, which can be read again.

        What the user demanded must not give way to one long tool result.
        """
        left = (goal.limit - self._view.fixed) // FOLD_DIVISOR
        return max(LEAST_ROOM, min(left, demanded_room(self._view, end)))

    def _room(self, working: WorkingPlan, limit: int) -> int | None:
        has_fold = working.end > self._view.conversation.instructions
        return max(SMALLEST_ROOM, limit - working.rest) if has_fold else None

    def _smallest(self, working: WorkingPlan, least: int, limit: int = 0) -> Plan:
        """Fold all but the current message and the newest step, and shorten that step."""
        view = self._view
        working.end = view.smallest_end
        has_fold = working.end > view.conversation.instructions
        room = least if has_fold else 0
        working.shorten_newest(limit - room)
        if working.rest + room > limit:
            working.scale_media(limit - room)
        if working.rest + room > limit:
            working.note_older_media()
            working.note_current_media(limit - room)
            working.shorten_calls(SMALLEST_CALL_BYTES)
        if working.rest + room > limit:
            # The user interrupted: what has no answer yet is folded with the request it was for.
            working.end = max(working.end, view.current_start)
            has_fold = working.end > view.conversation.instructions
            room = least if has_fold else 0
        room = max(room, limit - working.rest) if has_fold else 0
        return working.plan("smallest", room if has_fold else None)
