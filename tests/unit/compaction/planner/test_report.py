"""A plan in words: a treatment and a reason for every group."""

import json

from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.planner.forms import FoldOption, Goal, Planner
from chat_proxy.compaction.planner.plan import GroupPlan, Unfit
from chat_proxy.compaction.planner.report import PlanReport, report_of
from chat_proxy.compaction.planner.view import View
from tests.unit.chat.shapes import image, says, system, text, user
from tests.unit.compaction.examples import at
from tests.unit.compaction.planner.views import AGEING, BUDGET, run, talk, view_of


def report(view: View, target: int, limit: int, end: int | None = None) -> PlanReport:
    option = FoldOption(end, is_allowed=True)
    plan = Planner(view, AGEING, BUDGET).plan(Goal(target, limit, limit), option)
    assert plan is not None
    return report_of(view, plan, target)


def test_every_group_has_a_treatment_and_a_reason() -> None:
    view = view_of(system(), *talk(3_000), *run(4_000, 4_000, 4_000, 4_000))

    found = report(view, 11_000, 30_000, end=3)

    assert [(group.start, group.end, group.treatment) for group in found.groups] == [
        (0, 1, "whole"),
        (1, 2, "folded"),
        (2, 3, "folded"),
        (3, 4, "whole"),
        (4, 6, "line"),
        (6, 8, "line"),
        (8, 10, "whole"),
        (10, 12, "whole"),
    ]
    reasons = [group.reason for group in found.groups]
    assert reasons[0] == "instructions always stay"
    assert reasons[1] == "older than the tail that fits the target"
    assert reasons[3] == "the current request stays"
    assert "one line is left" in reasons[4]
    assert reasons[6] == "one of the newest two steps"


def test_the_request_of_a_divided_turn_stays_whole() -> None:
    view = view_of(*run(4_000, 4_000, 4_000, 4_000))

    found = report(view, 9_500, 30_000)

    assert found.groups[0].treatment == "whole"
    assert found.groups[0].reason == "the request of the current turn stays"
    assert found.groups[1].treatment == "folded"


def test_earlier_decisions_are_named_as_such() -> None:
    done = Treatments(lines=at(4))
    view = view_of(
        *talk(100), user(), *run(4_000)[1:], says(), user("now"), folded=2, treatments=done
    )

    found = report(view, 90_000, 90_000)

    assert found.groups[0].reason == "in the summary of an earlier compaction"
    assert found.groups[3] == GroupPlan(3, 5, "line", "decided by an earlier compaction")
    assert found.groups[4].reason == "in the tail that fits the target"


def test_media_of_the_current_request_that_do_not_fit_are_noted() -> None:
    found = report(view_of(user([text("look"), image()])), 100, 500)

    assert found.groups[0].treatment == "noted"
    assert found.groups[0].reason == "the media of the current message do not fit the window"


def test_a_report_is_plain_json() -> None:
    view = view_of(*talk(3_000, 3_000), user("now"), window=20_000)

    document = json.loads(json.dumps(report(view, 8_000, 9_000).as_document()))

    assert document["form"] == "folded"
    assert document["target"] == 8_000
    assert document["limit"] == view.budget.limit
    assert document["pace"] == view.pace
    assert document["fold_room"] > 400
    assert document["groups"][0] == {
        "start": 0,
        "end": 1,
        "treatment": "folded",
        "reason": "older than the tail that fits the target",
    }


def test_what_does_not_fit_is_said_in_one_sentence() -> None:
    assert Unfit(8_817, 50, 4_096).sentence == (
        "instructions and tools alone take 8,817 of 4,096 tokens"
    )
    assert Unfit(3_000, 2_000, 4_096).sentence == (
        "instructions and tools (3,000 tokens) and the current message (2,000 tokens)"
        " do not fit into 4,096 tokens"
    )
