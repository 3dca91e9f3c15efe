"""Why each group of a conversation got its treatment, for explain and the dashboard."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from chat_proxy.chat.conversation import Conversation, carried
from chat_proxy.chat.groups import Group
from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.planner.plan import GroupPlan, Plan
from chat_proxy.compaction.planner.view import View

_EARLIER_FOLD = "in the summary of an earlier compaction"
_NEW_FOLD = "older than the tail that fits the target"


@dataclass(frozen=True, slots=True)
class PlanReport:
    """A plan in words: its form, its sizes, and a treatment with a reason for every group."""

    form: str
    tokens: int
    target: int
    limit: int
    pace: int
    room: int | None
    """The tokens that the folded text may have; None if it stays as it is."""
    groups: tuple[GroupPlan, ...]
    is_waiting: bool = False
    """Whether the request fits and is sent as it is until a summary for the plan is ready."""

    def as_document(self) -> dict[str, Any]:
        """Return the report as plain values for JSON."""
        return {
            "form": self.form,
            "tokens": self.tokens,
            "target": self.target,
            "limit": self.limit,
            "pace": self.pace,
            "fold_room": self.room,
            "is_waiting": self.is_waiting,
            "groups": [group._asdict() for group in self.groups],
        }


def report_of(view: View, plan: Plan, target: int) -> PlanReport:
    """Return the report of a plan."""
    return PlanReport(
        plan.form,
        plan.tokens,
        target,
        view.budget.limit,
        view.pace,
        plan.room,
        tuple(_groups(view, plan)),
    )


def _groups(view: View, plan: Plan) -> Iterator[GroupPlan]:
    conversation = view.conversation
    kept_users = frozenset(carried(conversation, plan.end))
    for group in conversation.groups:
        treatment, reason = _treatment(view, plan, group, kept_users)
        start, end = conversation.origins[group.start], conversation.origins[group.end - 1]
        if start is not None and end is not None:
            yield GroupPlan(start, end + 1, treatment, reason)


def _treatment(view: View, plan: Plan, group: Group, kept_users: frozenset[int]) -> tuple[str, str]:
    conversation = view.conversation
    if group.end <= conversation.instructions:
        return "whole", "instructions always stay"
    if group.start in kept_users:
        return "whole", "the request of the current turn stays"
    if group.end <= plan.end:
        is_earlier = group.end <= view.folded
        return "folded", _EARLIER_FOLD if is_earlier else _NEW_FOLD
    aged = _aged(conversation, plan.treatments, group)
    reasons = [plan.reasons[index] for index in range(*group) if index in plan.reasons]
    if aged or reasons:
        return aged or "noted", reasons[0] if reasons else "decided by an earlier compaction"
    return "whole", _reason_to_stay(view, group)


def _aged(conversation: Conversation, treatments: Treatments, group: Group) -> str:
    """Return the strongest treatment within a group, empty if nothing in it is aged."""
    origins = {conversation.origins[index] for index in range(*group)}
    for name, places in (
        ("line", treatments.lines),
        ("short", treatments.short),
        ("short", treatments.calls),
        ("noted", treatments.media),
        ("scaled", treatments.scaled),
    ):
        if any(place.origin in origins for place in places):
            return name
    return ""


def _reason_to_stay(view: View, group: Group) -> str:
    turn = view.conversation.current_turn
    if turn is not None and group.start in turn.users:
        return "the current request stays"
    if group in view.newest_steps:
        return "one of the newest two steps"
    return "in the tail that fits the target"
