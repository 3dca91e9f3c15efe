"""What is a command, and what stands before it."""

import json
from typing import Any

import pytest
from hypothesis import given as over
from hypothesis import strategies as st

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.proxy.manual.command import Command, command_in
from tests.unit.chat.shapes import Fields, calls, image, result, says, system, text, user

TALK = [system(), user("One?"), says("One."), user("Two?"), says("Two.")]


def request(messages: object) -> ChatRequest:
    """Return a request as a client writes it."""
    fields = {"model": "fake", "messages": messages, "seed": 7}
    return ChatRequest(json.dumps(fields).encode(), fields)


def commanded(*messages: Fields) -> Command:
    """Return the command that ends these messages."""
    found = command_in(request(list(messages)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("said", "instruction"),
    [
        ("/compact", ""),
        ("  /compact \n", ""),
        ("/compact keep the names", "keep the names"),
        ("/compact\nkeep\nthe names ", "keep\nthe names"),
        ([text("/compact keep the names")], "keep the names"),
    ],
)
def test_a_command_may_have_an_instruction(said: Any, instruction: str) -> None:
    assert commanded(*TALK, user(said)).instruction == instruction


@pytest.mark.parametrize(
    "last",
    [
        user("/compacted"),
        user("compact"),
        user("Say /compact"),
        user(""),
        user(None),
        user([]),
        user([text("/compact"), text("all")]),
        user([image()]),
        user(["/compact"]),
        user([{"type": "text"}]),
        says("/compact"),
        system("/compact"),
        result("a", "/compact"),
        {},
    ],
)
def test_anything_else_is_none(last: Fields) -> None:
    assert command_in(request([*TALK, last])) is None


@pytest.mark.parametrize("messages", [None, [], "Hi", {}, [1], ["/compact"]])
def test_a_list_that_nobody_understands_has_none(messages: object) -> None:
    assert command_in(request(messages)) is None


def test_a_command_that_is_not_the_last_message_is_none() -> None:
    assert command_in(request([*TALK, user("/compact"), user("Hi")])) is None


def test_what_stands_before_it_is_the_request_without_it() -> None:
    before = commanded(*TALK, user("/compact")).before

    assert before.fields == {"model": "fake", "messages": TALK, "seed": 7}
    assert json.loads(before.body) == before.fields


def test_the_clients_request_is_not_changed() -> None:
    given = request([*TALK, user("/compact")])
    body = json.dumps(given.fields)

    command_in(given)

    assert json.dumps(given.fields) == body


def test_commands_that_were_answered_at_the_end_of_the_talk_are_no_turns_of_it() -> None:
    answered = [user("/compact"), says("It failed."), user("/compact names"), says("Complete!")]

    assert commanded(*TALK, *answered, user("/compact")).before.fields["messages"] == TALK


def test_commands_in_the_middle_of_the_talk_are_turns_of_it() -> None:
    talk = [*TALK, user("/compact"), says("Complete!"), user("Three?"), says("Three.")]

    assert commanded(*talk, user("/compact")).before.fields["messages"] == talk


@pytest.mark.parametrize("follows", [user("Hm."), calls("a")])
def test_a_command_without_an_answer_is_a_turn(follows: Fields) -> None:
    talk = [*TALK, user("/compact"), follows]

    assert commanded(*talk, user("/compact")).before.fields["messages"] == talk


def test_a_command_alone_has_nothing_before_it() -> None:
    before = commanded(user("/compact")).before

    assert json.loads(before.body)["messages"] == before.fields["messages"] == []


@over(st.lists(st.sampled_from([*TALK, user("/compact"), user("/compact x")]), max_size=8))
def test_body_and_fields_always_agree(messages: list[Fields]) -> None:
    before = commanded(*messages, user("/compact")).before

    assert json.loads(before.body) == before.fields
    assert messages[: len(before.fields["messages"])] == before.fields["messages"]
