from bench.conversation.model import Call
from bench.conversation.prompt import Json, broken_pairs
from bench.conversation.replay import Outcome, price
from bench.conversation.sessions import QUICK, agent_session
from bench.conversation.systems import CHAT_PROXY, NO_PROXY, drop_oldest
from bench.conversation.verdict import losses


def test_a_cached_token_costs_a_tenth() -> None:
    assert price([Call(100, 80, 9, is_side_query=False, broken_pairs=0)]) == 28


def test_a_side_query_is_billed_with_what_it_writes() -> None:
    assert price([Call(100, 100, 9, is_side_query=True, broken_pairs=0)]) == 19


def test_a_result_without_its_call_is_a_broken_pair() -> None:
    call = {"id": "1", "function": {"name": "f", "arguments": "{}"}}
    whole: list[Json] = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1"},
    ]

    assert broken_pairs(whole) == 0
    assert broken_pairs(whole[1:]) == 1
    assert broken_pairs(whole[:1]) == 1


def test_dropping_the_oldest_keeps_the_instructions_and_the_newest() -> None:
    *_, last = agent_session(QUICK[0], 1).requests()

    kept = drop_oldest(last, 8_000)["messages"]

    assert kept[0] == last["messages"][0]
    assert kept[1:] == last["messages"][-len(kept) + 1 :]
    assert len(kept) < len(last["messages"])


def test_whoever_answers_less_does_not_look_cheaper_for_it() -> None:
    ours = _outcome(CHAT_PROXY, [10.0, 20.0, 30.0], [True, True, True])
    theirs = _outcome(NO_PROXY, [15.0, 15.0, 15.0], [True, False, False])

    assert losses([ours, theirs]) == []


def test_a_cheaper_bill_for_the_same_requests_is_a_loss() -> None:
    ours = _outcome(CHAT_PROXY, [10.0, 20.0, 30.0], [True, True, True])
    theirs = _outcome(NO_PROXY, [9.0, 9.0, 9.0], [True, False, False])

    assert len(losses([ours, theirs])) == 1


def test_remembering_more_is_a_loss() -> None:
    ours = _outcome(CHAT_PROXY, [10.0], [True], recall=0.9)
    theirs = _outcome(NO_PROXY, [15.0], [True], recall=1.0)

    assert len(losses([ours, theirs])) == 1


def _outcome(
    system: str, billed: list[float], answered: list[bool], recall: float = 1.0
) -> Outcome:
    return Outcome(
        system, "agent, 16k", "agent", 1, billed=billed, answered=answered, recalls=[recall]
    )
