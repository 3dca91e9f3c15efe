"""What the parameters of Responses ask the server to do, and what is sent without them."""

from typing import Any

import pytest

from chat_proxy.wires.chat_completions import CHAT_COMPLETIONS
from chat_proxy.wires.contracts.contract import NOTHING_DONE, Contract, SealedPrompt
from chat_proxy.wires.responses.wire import RESPONSES

USER: Any = {"role": "user", "content": "Hi"}
SYSTEM: Any = {"type": "message", "role": "developer", "content": "Rules."}
TRIGGER: Any = {"type": "compaction_trigger"}
FOLD: Any = {"type": "message", "role": "user", "content": "Summary."}
SEALED = SealedPrompt("responses", (FOLD,), (SYSTEM,))


def item(content: object = "abc") -> Any:
    return {"type": "compaction", "id": "cmp_1", "encrypted_content": content}


def contract(**fields: Any) -> Contract | None:
    return RESPONSES.contract({"model": "m", **fields}, [])


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"input": "Hi"},
        {"input": [USER]},
        {"input": 3},
        {"input": [1, "x", None]},
        {"input": [{"type": "reasoning", "encrypted_content": "x"}, USER]},
    ],
)
def test_most_requests_ask_for_nothing(fields: Any) -> None:
    assert contract(**fields) is None


@pytest.mark.parametrize(
    ("management", "trigger"),
    [
        ([{"type": "compaction", "compact_threshold": 1}], 1),
        ([{"type": "compaction"}], None),
        ([{"type": "compaction", "compact_threshold": None}], None),
        ([{"type": "compaction", "compact_threshold": n} for n in (9, 7, 8)], 7),
    ],
)
def test_a_threshold_is_the_trigger(management: Any, trigger: int | None) -> None:
    assert contract(input=[USER], context_management=management) == Contract(
        compacts=True, trigger=trigger
    )


def test_an_empty_list_asks_for_nothing_but_is_taken_out() -> None:
    found = contract(input=[USER], context_management=[])

    assert found == Contract()
    assert RESPONSES.without_contract({"input": [USER], "context_management": []}, None) == {
        "input": [USER]
    }


@pytest.mark.parametrize(
    "management",
    [
        {},
        "x",
        7,
        [1],
        [{}],
        [{"type": "other"}],
        *(
            [{"type": "compaction", "compact_threshold": wrong}]
            for wrong in (0, -1, 1.5, "9", True)
        ),
    ],
)
def test_wrong_parameters_are_named(management: Any) -> None:
    found = contract(input=[USER], context_management=management)

    assert found is not None
    assert found.mistake
    assert found.param == "context_management"


def test_a_trigger_asks_for_a_compaction_now() -> None:
    assert contract(input=[USER, TRIGGER]) == Contract(compacts_now=True)


def test_a_trigger_that_is_not_last_is_a_mistake() -> None:
    found = contract(input=[TRIGGER, USER])

    assert found is not None
    assert (found.param, found.compacts_now) == ("input", False)


@pytest.mark.parametrize(("content", "sealed"), [("new", "new"), ("", ""), (None, "")])
def test_the_newest_item_counts(content: object, sealed: str) -> None:
    assert contract(input=[item("old"), USER, item(content), USER]) == Contract(sealed=sealed)


def test_a_sealed_prompt_stands_for_all_before_it() -> None:
    fields = {"model": "m", "input": [SYSTEM, USER, item("old"), USER, item(), USER, TRIGGER]}

    assert RESPONSES.without_contract(fields, SEALED) == {
        "model": "m",
        "input": [SYSTEM, FOLD, USER],
    }


def test_instructions_that_a_client_dropped_come_back() -> None:
    assert RESPONSES.without_contract({"input": [item(), USER]}, SEALED)["input"] == [
        SYSTEM,
        FOLD,
        USER,
    ]


def test_instructions_that_a_client_sends_elsewhere_are_not_doubled() -> None:
    newer = {"role": "system", "content": "Newer rules."}

    assert RESPONSES.without_contract({"input": [item(), newer]}, SEALED)["input"] == [FOLD, newer]


def test_what_has_no_list_keeps_it() -> None:
    fields = {"input": "Hi", "context_management": [{"type": "compaction"}]}

    assert RESPONSES.without_contract(fields, None) == {"input": "Hi"}


@pytest.mark.parametrize("content", [None, 5, True, [], {}])
def test_an_item_without_a_sealed_prompt_is_one_that_nobody_opens(content: Any) -> None:
    """Passed over, all that it stands for would be lost without a word."""
    found = contract(input=[{"type": "compaction", "encrypted_content": content}, USER])

    assert found is not None
    assert found.sealed == ""


def test_chat_completions_has_no_contracts() -> None:
    fields = {"messages": [USER], "context_management": [{"type": "compaction"}]}

    assert CHAT_COMPLETIONS.contract(fields, []) is None
    assert CHAT_COMPLETIONS.without_contract(fields, None) is fields
    assert CHAT_COMPLETIONS.answer_edit(NOTHING_DONE, "r") is None
