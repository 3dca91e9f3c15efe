from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_proxy.chat.message import Message
from chat_proxy.tokens.counter import count_request
from chat_proxy.tokens.overheads import rules_for
from chat_proxy.tokens.tiktoken_counter import TiktokenCounter
from chat_proxy.tokens.tools import as_json, as_typescript, tools_tokens

OPENAI = rules_for("gpt-4o", "openai")
OPEN = rules_for("Qwen/Qwen3-8B", "vllm")

WEATHER: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_current_weather",
            "description": "Get the current weather in a given location",
            "parameters": {
                "type": "object",
                "properties": {
                    "location": {
                        "type": "string",
                        "description": "The city and state, e.g. San Francisco, CA",
                    },
                    "unit": {
                        "type": "string",
                        "description": "The unit of temperature to return",
                        "enum": ["celsius", "fahrenheit"],
                    },
                },
                "required": ["location"],
            },
        },
    }
]
QUESTION = [
    Message(
        {
            "role": "system",
            "content": "You are a helpful assistant that can answer to questions about the "
            "weather.",
        }
    ),
    Message({"role": "user", "content": "What's the weather like in San Francisco?"}),
]


def tool(**properties: Any) -> list[dict[str, Any]]:
    parameters = {"type": "object", "properties": properties, "required": [*properties][:1]}
    return [{"type": "function", "function": {"name": "f", "parameters": parameters}}]


def test_the_cookbooks_tools_count_as_the_api_counted_them(o200k: TiktokenCounter) -> None:
    """FACTS §4: 101 for gpt-4o."""
    assert count_request(QUESTION, WEATHER, o200k, OPENAI).total == 101


def test_tools_are_written_as_openai_writes_them() -> None:
    assert as_typescript(WEATHER).splitlines() == [
        "namespace functions {",
        "",
        "// Get the current weather in a given location",
        "type get_current_weather = (_: {",
        "// The city and state, e.g. San Francisco, CA",
        "location: string,",
        "// The unit of temperature to return",
        'unit?: "celsius" | "fahrenheit",',
        "}) => any;",
        "",
        "} // namespace functions",
    ]


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "integer"}, "number"),
        ({"type": "boolean"}, "boolean"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, "string | number"),
        ({"oneOf": [{"type": "null"}, 5]}, "null | any"),
        ({"enum": [1, "two"]}, '1 | "two"'),
        ({"type": "array", "items": {"type": "number"}}, "number[]"),
        ({"type": "array"}, "any[]"),
        ({"type": "object", "properties": {"k": {"type": "null"}}}, "{\n  k?: null,\n}"),
        ({"$ref": "#/$defs/x"}, "any"),
        ({"type": {"odd": 1}}, "any"),
        ("odd", "any"),
    ],
)
def test_each_kind_of_parameter_has_its_type(schema: Any, written: str) -> None:
    assert f"p: {written},\n" in as_typescript(tool(p=schema))


def test_a_tool_without_parameters_takes_none() -> None:
    assert "type now = () => any;" in as_typescript([{"type": "function", "name": "now"}])


def test_nesting_without_end_is_cut() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(200):
        schema = {"type": "array", "items": schema}

    assert "any[]" in as_typescript(tool(p=schema))


def test_open_templates_get_json_with_a_preamble(o200k: TiktokenCounter) -> None:
    assert tools_tokens(WEATHER, o200k, "json") == o200k.count(as_json(WEATHER)) + 120


def test_letters_of_other_alphabets_are_not_escaped() -> None:
    assert as_json([{"description": "读取文件"}]) == '[{"description": "读取文件"}]'


@pytest.mark.parametrize("nothing", [None, [], {}, ""])
def test_no_tools_cost_nothing(nothing: object, o200k: TiktokenCounter) -> None:
    assert tools_tokens(nothing, o200k, "json") == 0
    assert tools_tokens(nothing, o200k, "typescript") == 0


def test_the_same_tools_are_written_once() -> None:
    counter = TiktokenCounter("o200k_base")
    counter.load()
    first = tools_tokens(WEATHER, counter, "json")
    known = len(counter._known)

    assert tools_tokens([dict(WEATHER[0])], counter, "json") == first
    assert len(counter._known) == known
    assert tools_tokens(WEATHER, counter, "typescript") != first


@pytest.mark.parametrize(
    "odd",
    [
        [{"function": {"description": "\ud800", "parameters": {"properties": {"a": 1}}}}],
        [{"function": {"parameters": {"properties": {"a": {"enum": [2**70]}}}}}],
        [{"function": {"parameters": {"properties": {"a": {}}, "required": [[], 5]}}}],
        "tools",
        5,
        [[[]]],
        {"function": None},
    ],
)
def test_odd_tools_are_counted_too(odd: object, o200k: TiktokenCounter) -> None:
    assert tools_tokens(odd, o200k, "json") > 0
    assert tools_tokens(odd, o200k, "typescript") > 0


def test_a_value_that_cannot_be_written_is_empty() -> None:
    endless: list[Any] = []
    endless.append(endless)

    assert as_json(endless) == ""


def test_tool_choice_and_schema_count_where_the_prompt_has_them(o200k: TiktokenCounter) -> None:
    def total(rules: Any, **more: Any) -> int:
        return count_request(QUESTION, WEATHER, o200k, rules, **more).total

    named = {"type": "function", "function": {"name": "get_current_weather"}}
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    assert total(OPENAI, tool_choice="auto") == 101
    assert total(OPENAI, tool_choice="none") == 102
    assert total(OPENAI, tool_choice=named) == 101 + 7 + o200k.count("get_current_weather")
    assert total(OPENAI, response_format={"type": "json_object"}) == 101
    assert total(OPENAI, response_format=schema) > 105
    assert total(OPEN, tool_choice=named, response_format=schema) == total(OPEN)


def test_without_a_system_message_the_definitions_need_one(o200k: TiktokenCounter) -> None:
    alone = count_request(QUESTION[1:], WEATHER, o200k, OPENAI)

    assert alone.overhead == 4 + 3
    assert count_request(QUESTION, WEATHER, o200k, OPENAI).overhead == 2 * 4 + 3 - 4


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["type", "function", "parameters", "properties", "anyOf", "enum", "items", "name"]
            ),
            inner | st.sampled_from(["object", "array", "string"]),
            max_size=4,
        ),
    ),
    max_leaves=30,
)


@settings(deadline=None, max_examples=100)
@given(JSON)
def test_any_json_can_be_tools(value: Any) -> None:
    unloaded = TiktokenCounter("o200k_base")

    assert tools_tokens(value, unloaded, "json") >= 0
    assert tools_tokens(value, unloaded, "typescript") >= 0
