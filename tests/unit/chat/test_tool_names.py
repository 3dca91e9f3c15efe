from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.tool_names import tool_name_of_results
from tests.unit.chat.shapes import (
    Fields,
    conversation,
    histories,
    odd_messages,
    result,
    says,
    user,
)


def _call(name: str, tool: str, kind: str = "function") -> Fields:
    return {"id": name, "type": kind, kind: {"name": tool}}


def _calls(*pairs: tuple[str, str]) -> Fields:
    return says(None, tool_calls=[_call(*pair) for pair in pairs])


def _names(*messages: Fields) -> list[str]:
    return list(tool_name_of_results(conversation(*messages)).values())


def test_each_of_parallel_results_has_the_tool_of_its_call() -> None:
    given = conversation(user(), _calls(("1", "read"), ("2", "skill")), result("2"), result("1"))

    assert tool_name_of_results(given) == {2: "skill", 3: "read"}


def test_the_results_own_name_counts_first() -> None:
    assert _names(_calls(("1", "read")), {**result("1"), "name": "write"}) == ["write"]


def test_an_id_used_again_means_the_nearest_call() -> None:
    history = [_calls(("1", "read")), result("1"), user(), _calls(("1", "skill")), result("1")]

    assert _names(*history) == ["read", "skill"]


def test_a_custom_tools_name_is_found() -> None:
    assert _names(says(None, tool_calls=[_call("1", "patch", "custom")]), result("1")) == ["patch"]


def test_a_legacy_result_has_the_tool_of_the_call_it_follows() -> None:
    caller = says(None, function_call={"name": "read", "arguments": "{}"})

    assert _names(caller, {"role": "function", "content": "x"}) == ["read"]


def test_a_result_without_an_id_has_no_tool_when_several_were_called() -> None:
    given = [_calls(("1", "read"), ("2", "skill")), {"role": "tool", "content": "x"}]

    assert _names(*given) == [""]


def test_a_result_far_from_its_call_needs_an_id() -> None:
    given = [_calls(("1", "read")), user(), {"role": "tool", "content": "x"}, result("1")]

    assert _names(*given) == ["", "read"]


def test_calls_of_an_unknown_shape_name_no_tool() -> None:
    given = [says(None, tool_calls=["x", {"id": 1, "function": "f"}]), result("1")]

    assert _names(*given) == [""]


@given(st.lists(odd_messages, max_size=4) | histories)
def test_every_result_has_an_entry(messages: list[Fields]) -> None:
    view = conversation(*messages)

    names = tool_name_of_results(view)

    expected = [index for index, message in enumerate(view.messages) if message.is_tool_result]
    assert list(names) == expected
    assert all(type(name) is str for name in names.values())
