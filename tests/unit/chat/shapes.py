"""Messages in the shapes that real clients send, and strategies for any others."""

import json
from typing import Any

from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation

PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9Q"

Fields = dict[str, Any]


def system(content: Any = "Be nice") -> Fields:
    return {"role": "system", "content": content}


def developer(content: Any = "Be nice") -> Fields:
    return {"role": "developer", "content": content}


def user(content: Any = "hi") -> Fields:
    return {"role": "user", "content": content}


def says(content: Any = "ok", **more: Any) -> Fields:
    return {"role": "assistant", "content": content, **more}


def call(name: str, arguments: Any = '{"city": "Paris"}') -> Fields:
    function = {"name": "get_weather", "arguments": arguments}
    return {"id": name, "type": "function", "function": function}


def calls(*names: str, **more: Any) -> Fields:
    return says(None, tool_calls=[call(name) for name in names], **more)


def result(name: str, content: Any = "20C") -> Fields:
    return {"role": "tool", "tool_call_id": name, "content": content}


def text(words: str, **more: Any) -> Fields:
    return {"type": "text", "text": words, **more}


def image(url: str = PIXEL, **more: Any) -> Fields:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def conversation(*messages: Fields) -> Conversation:
    found = Conversation.of(list(messages))
    assert found is not None
    return found


# One run for every content form and field of the recorded clients.
RECORDED: dict[str, list[Fields]] = {
    "openai-py": [
        developer(),
        user([text("Weather?"), image(detail="low")]),
        {
            "content": "Let me look.",
            "refusal": None,
            "role": "assistant",
            "annotations": None,
            "audio": None,
            "function_call": None,
            "tool_calls": [call("a"), call("b")],
            "reasoning": "I should call the tool.",
            "reasoning_content": "I should call the tool.",
        },
        result("a"),
        result("b"),
        calls("c", reasoning="One more.", reasoning_content="One more."),
        result("c"),
    ],
    "qwen-code": [
        system(),
        user([text("context"), text("task")]),
        says("", tool_calls=[call("a")], reasoning_content="Hm."),
        result("a", [text("file one"), text("file two")]),
        calls("b"),
        result("b", [text("done")]),
        user([text("and now?")]),
    ],
    "gptme": [
        system([text("You are gptme")]),
        system([text("Tools")]),
        user([text("run it")]),
        says([text("```shell\nls\n```")]),
        system([text("output of ls")]),
        says([text("Done.")]),
    ],
    "aider": [
        system([text("Act as an expert")]),
        user("files"),
        says([text("Ok.")]),
        user("change it"),
    ],
    "mini-swe": [
        system(),
        user("fix"),
        says("x", tool_calls=[call("a")], reasoning_content="r", provider_specific_fields={}),
        result("a"),
    ],
    "opencode": [
        system(),
        user("one"),
        user("two"),
        says("a"),
        says("b", tool_calls=[call("a"), call("b")]),
        result("a"),
        result("b"),
        user([text("look"), image()]),
    ],
    "pydantic-ai": [system(), system(), user(), says("x", reasoning="why")],
    "plain": [user()],
}

SURROGATE = "half \ud83d"
HUGE = 2**70

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.just(HUGE)
    | st.floats(-2, 2)
    | st.sampled_from(["", "a", 'é\n\\"', SURROGATE, PIXEL, "A" * 300, "data:;base64,AA"])
)
_KEYS = """
    role content type text name image_url image url source data file resource blob tool_calls
    function function_call arguments id tool_call_id refusal reasoning thinking input cache_control
    detail format filename audio input_audio media_type mimeType é
"""
_TYPES = """
    text input_text image_url input_image image video input_audio audio file document resource
    tool_result tool_use thinking reasoning refusal other
"""
KEYS = st.sampled_from(_KEYS.split())
TYPES = st.sampled_from(_TYPES.split())


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    part = st.builds(lambda kind, more: {"type": kind, **more}, TYPES, st.dictionaries(KEYS, inner))
    return st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4) | part


values = st.recursive(scalars, _grown, max_leaves=12)
odd_messages = st.dictionaries(KEYS, values, max_size=5)

_ids = st.sampled_from("xyz")
ordinary_messages = st.one_of(
    st.just(system()),
    st.builds(user, st.sampled_from(["hi", "é", SURROGATE])),
    st.builds(says),
    st.builds(lambda ids: calls(*ids), st.lists(_ids, min_size=1, max_size=3)),
    st.builds(result, _ids),
    st.just({"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}),
    st.just({"role": "function", "name": "f", "content": "1"}),
    st.just({"role": "tool", "content": "no id"}),
)
histories = st.lists(ordinary_messages, max_size=12)


def turn(number: int) -> list[Fields]:
    """A question, a call and its result, about 2.5 KB."""
    function = {"name": "read", "arguments": json.dumps({"path": f"{number}/" * 40})}
    its_call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "user", "content": f"Frage {number}: größer?\n" * 30},
        {"role": "assistant", "content": None, "tool_calls": [its_call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": f"line {number}\n" * 100},
    ]
