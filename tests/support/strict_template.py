"""The rules of the strictest chat templates, and conversations that keep them."""

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from tests.unit.chat.shapes import calls, developer, image, result, says, system, text, user

Fields = dict[str, Any]

_INSTRUCTIONS = ("system", "developer")


def complaints(
    messages: list[Fields],
    *,
    allow_late_system: bool = False,
    allow_user_after_tools: bool = False,
) -> list[str]:
    """Return what a strict chat template would refuse about the messages, empty if nothing."""
    spoken = [index for index, message in enumerate(messages) if not _is_instruction(message)]
    found = [] if spoken else ["nobody speaks"]
    if not allow_late_system:
        found += _late_systems(messages)
    found += _unknown_roles(messages)
    found += _unanswered_calls(messages, spoken)
    found += _broken_alternation(messages, spoken, allow_user_after_tools)
    found += _bad_fields(messages)
    return found


def _is_instruction(message: Fields) -> bool:
    return message.get("role") in _INSTRUCTIONS


def _late_systems(messages: list[Fields]) -> Iterator[str]:
    began = False
    for index, message in enumerate(messages):
        began = began or not _is_instruction(message)
        if began and _is_instruction(message):
            yield f"message {index}: a late {message['role']} message"


def _unknown_roles(messages: list[Fields]) -> Iterator[str]:
    for index, message in enumerate(messages):
        if message.get("role") not in (*_INSTRUCTIONS, "user", "assistant", "tool"):
            yield f"message {index}: an unknown role"


def _unanswered_calls(messages: list[Fields], spoken: list[int]) -> Iterator[str]:
    waiting: list[Any] = []
    for index in spoken:
        message = messages[index]
        if message.get("role") == "tool":
            if message.get("tool_call_id") in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                yield f"message {index}: a result without its call"
            continue
        if waiting:
            yield f"message {index}: calls before it have no result"
        waiting = [call.get("id") for call in message.get("tool_calls") or ()]
    if waiting:
        yield "calls at the end have no result"


def _broken_alternation(
    messages: list[Fields], spoken: list[int], allow_user_after_tools: bool
) -> Iterator[str]:
    before = ""
    for index in spoken:
        role = messages[index].get("role")
        if role == "user" and before == "user":
            yield f"message {index}: two users in a row"
        if role == "user" and before == "tool" and not allow_user_after_tools:
            yield f"message {index}: a user after tool results"
        if role == "assistant" and before == "assistant":
            yield f"message {index}: two assistants in a row"
        if not before and role != "user":
            yield f"message {index}: the first to speak is not the user"
        before = str(role)


def _bad_fields(messages: list[Fields]) -> Iterator[str]:
    for index, message in enumerate(messages):
        if message.get("role") in ("user", "tool") and message.get("content") is None:
            yield f"message {index}: no content"
        for call in message.get("tool_calls") or ():
            if not isinstance(call.get("function", {}).get("arguments"), str):
                yield f"message {index}: arguments are not a string"


_contents: st.SearchStrategy[Any] = st.sampled_from(
    ["hi", "use tabs, never blanks", [text("look"), image()], [text("one"), text("two")]]
)
_results: st.SearchStrategy[Any] = st.sampled_from(["20C", "", [text("file one")]])
_answers: st.SearchStrategy[Any] = st.sampled_from(["ok", [text("done")]])
_thoughts: st.SearchStrategy[Fields] = st.sampled_from([{}, {"reasoning_content": "Hm."}])
_instructions = st.sampled_from([[], [system()], [system(), developer()]])


@st.composite
def _steps(draw: st.DrawFn) -> list[Fields]:
    """A call of one or more tools with all its results, in any order."""
    names = [f"call_{index}" for index in range(draw(st.integers(1, 3)))]
    answered = draw(st.permutations(names))
    caller = calls(*names, **draw(_thoughts))
    return [caller, *(result(name, draw(_results)) for name in answered)]


@st.composite
def _turns(draw: st.DrawFn) -> list[Fields]:
    groups = draw(st.lists(_steps(), max_size=5))
    steps = [message for group in groups for message in group]
    return [user(draw(_contents)), *steps, says(draw(_answers), **draw(_thoughts))]


@st.composite
def well_formed(draw: st.DrawFn) -> list[Fields]:
    """Any list of messages that a strict template takes, as a client would send it."""
    turns = [message for turn in draw(st.lists(_turns(), max_size=4)) for message in turn]
    groups = draw(st.lists(_steps(), max_size=5))
    steps = [message for group in groups for message in group]
    return [*draw(_instructions), *turns, user(draw(_contents)), *steps]
