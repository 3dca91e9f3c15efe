"""A compaction block that comes back stands for everything before it."""

from typing import Any

import pytest

from chat_proxy.errors import InvalidCompactionItem
from chat_proxy.wires.contracts.contract import SealedPrompt
from chat_proxy.wires.messages.compaction_blocks import unfolded

Fields = dict[str, Any]
FOLD = {"role": "user", "content": "So far."}
ASKED = {"role": "user", "content": "And now?"}
SEALED = SealedPrompt(
    "messages", (FOLD, {"role": "assistant", "content": "Yes."}, ASKED), text="So far."
)
BLOCK = {"type": "compaction", "content": "So far.", "encrypted_content": "sealed"}
FAILED = {"type": "compaction", "content": None}
TEXT = {"type": "text", "text": "Well."}
NEXT = {"role": "user", "content": "Go on."}


def says(*blocks: Fields) -> Fields:
    return {"role": "assistant", "content": list(blocks)}


def test_everything_before_the_block_is_ignored() -> None:
    history = [{"role": "user", "content": "Old."}, says(TEXT), ASKED, says(BLOCK, TEXT), NEXT]

    assert unfolded(history, SEALED) == [*SEALED.items, says(TEXT), NEXT]
    assert unfolded(history[3:], SEALED) == [*SEALED.items, says(TEXT), NEXT]


def test_of_two_blocks_the_newest_stands() -> None:
    history = [says(BLOCK, TEXT), NEXT, says(TEXT, BLOCK, TEXT, TEXT)]

    assert unfolded(history, SEALED) == [*SEALED.items, says(TEXT, TEXT)]


def test_a_block_of_the_user_is_the_whole_message() -> None:
    first = {"role": "user", "content": [BLOCK]}

    assert unfolded([first, says(TEXT)], SEALED) == [*SEALED.items, says(TEXT)]


def test_failed_compactions_are_left_out() -> None:
    history = [ASKED, says(FAILED, TEXT), NEXT, says(FAILED)]

    assert unfolded(history, None) == [ASKED, says(TEXT), NEXT]
    assert unfolded([says(BLOCK, TEXT), *history[2:]], SEALED)[-2:] == [says(TEXT), NEXT]


def test_a_paused_answer_goes_on_with_the_very_prompt() -> None:
    assert unfolded([ASKED, says(BLOCK)], SEALED) == list(SEALED.items)


def test_messages_that_the_client_kept_from_before_are_not_repeated() -> None:
    assert unfolded([says(BLOCK), ASKED], SEALED) == list(SEALED.items)
    assert unfolded([says(BLOCK), ASKED, says(TEXT), NEXT], SEALED) == [
        *SEALED.items,
        says(TEXT),
        NEXT,
    ]


def test_an_answer_that_repeats_the_end_of_its_prompt_is_not_dropped() -> None:
    """A user who says the same again, and a model that answers the same, are no repetition."""
    answer = says(TEXT)
    sealed = SealedPrompt("messages", (FOLD, answer, NEXT, answer, NEXT), text="So far.")

    found = unfolded([says(BLOCK, TEXT), NEXT], sealed)

    assert found == [*sealed.items, answer, NEXT]


def test_instructions_in_the_list_survive_a_client_that_drops_them() -> None:
    rules, newer = {"role": "system", "content": "Rules."}, {"role": "system", "content": "New."}
    sealed = SealedPrompt("messages", (FOLD,), (rules,), text="So far.")

    assert unfolded([says(BLOCK, TEXT), NEXT], sealed) == [rules, FOLD, says(TEXT), NEXT]
    assert unfolded([newer, ASKED, says(BLOCK, TEXT)], sealed) == [newer, FOLD, says(TEXT)]


def test_two_messages_of_the_user_have_an_answer_between_them() -> None:
    found = unfolded([says(BLOCK), NEXT], SEALED)

    assert [message["role"] for message in found] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert found[-1] == NEXT


def test_a_block_that_says_something_else_than_its_seal_is_refused() -> None:
    with pytest.raises(InvalidCompactionItem, match=r"messages\.0\.content\.0"):
        unfolded([says({**BLOCK, "content": "Trust me."}), NEXT], SEALED)
