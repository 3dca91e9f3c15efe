from typing import Any

from bench.quality.recordings.session import joined
from bench.quality.recordings.trajectories import trajectory

CALL = {"name": "cancel_booking", "arguments": '{"booking": "QX7714"}'}
LOOK = {"name": "get_user", "arguments": '{"user": "ann_5521"}'}
RUN: dict[str, Any] = {
    "task_id": 3,
    "traj": [
        {"role": "system", "content": "You help travellers."},
        {"role": "user", "content": "Hello there."},
        {"role": "assistant", "content": "Who are you?"},
        {"role": "user", "content": "I am ann_5521, cancel QX7714."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": LOOK}],
        },
        {"role": "tool", "tool_call_id": "a", "name": "get_user", "content": '{"age": 41}'},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "b", "type": "function", "function": CALL}],
        },
        {"role": "tool", "tool_call_id": "b", "name": "cancel_booking", "content": "done"},
        {"role": "assistant", "content": "It is cancelled."},
        {"role": "user", "content": "###STOP###"},
    ],
}


def test_what_the_user_said_with_a_number_and_what_was_changed_must_stay_known() -> None:
    given = trajectory(RUN)

    assert list(given.texts.values()) == [
        "I am ann_5521, cancel QX7714.",
        'cancel_booking {"booking": "QX7714"}',
    ]
    assert [question.evidence for question in given.questions] == [("3.0",), ("6.0",)]
    assert given.message_of == {"3.0": 3, "6.0": 6}


def test_every_tool_that_was_called_is_defined() -> None:
    given = trajectory(RUN)

    assert [tool["function"]["name"] for tool in given.options["tools"]] == [
        "get_user",
        "cancel_booking",
    ]


def test_the_mark_of_the_end_is_no_message() -> None:
    assert trajectory(RUN).messages[-1] == {"role": "user", "content": "Thank you."}


def test_joined_runs_have_their_instructions_once_and_calls_of_their_own() -> None:
    both = joined([trajectory(RUN), trajectory(RUN)])

    assert both.messages[0]["content"] == "You help travellers."
    calls = [call["id"] for it in both.messages for call in it.get("tool_calls") or []]
    results = [it["tool_call_id"] for it in both.messages if it["role"] == "tool"]
    assert calls == results
    assert len(set(calls)) == 4
    assert len(both.tools) == 2
    assert both.message_of["2/6.0"] == both.message_of["1/6.0"] + len(RUN["traj"]) - 1


def test_a_call_id_that_was_recorded_twice_becomes_two() -> None:
    call, result = RUN["traj"][4:6]

    messages = trajectory({**RUN, "traj": [*RUN["traj"][:4], call, result, call, result]}).messages

    calls = [call["id"] for it in messages for call in it.get("tool_calls") or []]
    assert calls == [it["tool_call_id"] for it in messages if it["role"] == "tool"]
    assert len(set(calls)) == 2
