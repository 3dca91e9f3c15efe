from bench.conversation.dialogues.data import dialogue
from bench.conversation.dialogues.replay import POINTS, Asked, Outcome, dropping
from bench.conversation.dialogues.report import mean_share, share, table
from bench.conversation.model import Call
from tests.bench.dialogues.test_data import TALK


def test_shares_are_over_all_questions_of_all_dialogues() -> None:
    one, other = _outcome("one", Asked(30, 15, 30)), _outcome("other", Asked(10, 5, 0))

    assert share([one, other], -1) == (0.5, 0.75)
    assert mean_share([one, other]) == (0.5, 0.75)


def test_the_table_has_a_row_per_dialogue_and_one_for_all() -> None:
    rows = table([_outcome("one", Asked(30, 15, 30)), _outcome("two", Asked(10, 5, 0))]).split("\n")

    assert len(rows) == 2 + 3
    assert "| one | 30 | 50.0% | 100.0% | 0.50 |" in rows[2]
    assert "| two | 10 | 50.0% | 0.0% | - |" in rows[3]
    assert "| **all** | 40 | 50.0% | 75.0% | 0.67 |" in rows[4]


def test_the_bill_has_cached_tokens_at_a_tenth() -> None:
    outcome = _outcome("one", Asked(1, 1, 1))
    outcome.calls = [
        Call(100, 50, 7, is_side_query=False, broken_pairs=0),
        Call(100, 100, 7, is_side_query=True, broken_pairs=0),
    ]

    assert outcome.billed == 50 + 5 + 10 + 7
    assert outcome.side_queries == 1


def test_dropping_keeps_every_prompt_within_the_window() -> None:
    requests = dialogue(TALK).requests()

    calls = dropping(requests, window=80)

    assert len(calls) == len(requests)
    assert all(call.sent < 80 for call in calls)
    assert dropping(requests, window=10_000)[-1].sent > 80


def _outcome(name: str, asked: Asked) -> Outcome:
    return Outcome(name, 8_192, requests=10, asked=[asked] * len(POINTS))
