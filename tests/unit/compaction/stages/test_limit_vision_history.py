"""An image anywhere in the request drops older turns: `VISION_FOLLOW_UPS=truncate`."""

from functools import partial
from typing import Any

import pytest

from chat_proxy.compaction.stages.limit_vision_history import (
    LimitVisionHistory,
    LimitVisionHistoryPolicy,
)
from chat_proxy.compaction.stages.stage import StageContext, StageResult
from tests.unit.chat.shapes import (
    PIXEL,
    Fields,
    calls,
    conversation,
    developer,
    image,
    result,
    says,
    system,
    text,
    user,
)
from tests.unit.compaction.stages.looking import VIDEO, looks
from tests.unit.compaction.stages.looking import limit as limited_by

AUDIO = {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}}
PDF = {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBE"}}


limit = partial(limited_by, truncates=True)


def _kept(*messages: Fields, system: bool = True, turns: int = 0) -> list[int | None]:
    limited = limit(conversation(*messages), system=system, turns=turns)
    kept = limited.conversation
    assert bool(limited.notice) == (len(kept) < len(messages))
    assert all(
        fields is messages[origin or 0]
        for fields, origin in zip(kept.fields, kept.origins, strict=True)
    )
    return list(kept.origins)


def test_older_turns_go_and_instructions_and_the_current_turn_stay() -> None:
    """BUGS 23."""
    given = (system(), looks(), says("A cat."), looks(), says("A dog."), looks())

    assert _kept(*given) == [0, 5]


def test_the_notice_says_what_was_dropped() -> None:
    pairs = [message for _ in range(3) for message in (looks(), says())]
    given = conversation(system(), *pairs, looks())

    limited = limit(given)

    assert limited.notice == (
        "[forwarder] Truncated vision history: 8 → 2 messages"
        " (keep_system=True, keep_last_n_turns=0)"
    )
    assert limited.offloads == {}


def test_the_notice_names_the_settings_in_force() -> None:
    given = conversation(system(), looks(), says(), user(), says(), user())

    limited = limit(given, system=False, turns=1)

    assert limited.notice.endswith("6 → 3 messages (keep_system=False, keep_last_n_turns=1)")


def test_a_conversation_without_images_passes_untouched() -> None:
    given = conversation(system(), user(), says(), user([text("and?")]))

    limited = limit(given)

    assert limited == StageResult(given)
    assert limited.conversation is given


@pytest.mark.parametrize("part", [AUDIO, PDF])
def test_sound_and_files_are_nothing_to_see(part: Fields) -> None:
    given = conversation(user([part]), says(), user())

    assert limit(given).conversation is given


@pytest.mark.parametrize(
    "holder",
    [
        user([image()]),
        user(image()),
        user([VIDEO]),
        says([image("https://a/b.png")]),
        system([text("Our logo"), image()]),
        user([{"type": "tool_result", "content": [image()]}]),
        user([{"type": "file", "file": {"file_data": PIXEL}}]),
    ],
)
def test_an_image_or_film_anywhere_counts_in_every_form(holder: Fields) -> None:
    """BUGS 39."""
    given = (user(), says(), holder, says(), user())

    assert len(_kept(*given)) < len(given)


def test_an_image_in_a_tool_result_counts() -> None:
    given = (user(), calls("a"), result("a", [image()]), says(), user("go on"))

    assert _kept(*given) == [4]


def test_an_image_of_an_older_turn_goes_with_its_turn() -> None:
    assert _kept(looks(), says("A cat."), user("What breed?")) == [2]


def test_an_image_of_the_current_turn_stays() -> None:
    """BUGS 32."""
    given = (user(), says(), looks(), calls("a"), result("a"), says("hm"))

    assert _kept(*given) == [2, 3, 4, 5]


def test_user_messages_in_a_row_are_one_turn() -> None:
    """BUGS 38."""
    assert _kept(user(), says(), user([image()]), user("Look at that")) == [2, 3]


@pytest.mark.parametrize(("turns", "first"), [(0, 5), (1, 3), (2, 1), (3, 1), (99, 1)])
def test_the_last_turns_before_the_current_one_stay(turns: int, first: int) -> None:
    given = (system(), looks(), says(), looks(), says(), looks())

    assert _kept(*given, turns=turns) == [0, *range(first, 6)]


def test_turns_that_stay_are_whole() -> None:
    """BUGS 1, 2."""
    given = (user(), says(), looks(), calls("a", "b"), result("b"), result("a"), says(), user())

    assert _kept(*given, turns=1) == [2, 3, 4, 5, 6, 7]
    assert _kept(*given, turns=0) == [7]


def test_instructions_in_mid_history_stay_in_their_order() -> None:
    """BUGS 23."""
    given = (system(), developer(), looks(), says(), system("output"), user(), says(), user())

    assert _kept(*given) == [0, 1, 4, 7]


def test_instructions_go_if_they_need_not_stay() -> None:
    given = (system(), looks(), says(), system("output"), user(), system("now"), says())

    assert _kept(*given, system=False) == [4, 5, 6]


def test_leading_instructions_go_even_before_a_single_turn_if_they_need_not_stay() -> None:
    assert _kept(system(), looks(), system=False) == [1]


def test_a_group_that_reaches_into_the_next_turn_joins_both() -> None:
    """BUGS 1."""
    given = (user(), says(), user(), calls("a"), looks(), result("a"), says())

    assert _kept(*given) == [2, 3, 4, 5, 6]


def test_half_answered_parallel_calls_join_both_turns() -> None:
    """BUGS 2."""
    given = (user(), says(), user(), calls("a", "b"), result("a"), looks(), result("b"))

    assert _kept(*given) == [2, 3, 4, 5, 6]


def test_an_instruction_between_call_and_result_stays_when_both_go() -> None:
    """BUGS 1, 23."""
    given = (user(), calls("a"), system("output"), result("a"), says(), looks())

    assert _kept(*given) == [2, 5]


def test_a_greeting_before_the_first_user_message_is_a_turn() -> None:
    given = (system(), says("Hello!"), looks(), says(), user())

    assert _kept(*given, turns=1) == [0, 2, 3, 4]
    assert _kept(*given, turns=2) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("keep_system", [True, False])
@pytest.mark.parametrize(
    "messages",
    [
        [],
        [looks()],
        [system([image()])],
        [system([image()]), developer()],
        [says([image()])],
        [says(), calls("a"), result("a", [image()]), says()],
        [looks(), says("A "), system("go on")],
    ],
)
def test_what_has_only_one_turn_or_none_passes(messages: list[Fields], keep_system: bool) -> None:
    """A14: a history without a user message is the client's own business."""
    given = conversation(*messages)

    assert limit(given, system=keep_system).conversation is given


@pytest.mark.parametrize("content", [None, 7, "x", {}, {"type": "odd"}, [None, 7, "x", {}]])
def test_odd_contents_beside_an_image_do_no_harm(content: Any) -> None:
    """A14."""
    odd: Fields = {"role": 7, "content": content}

    assert _kept(odd, user(content), {}, says(), looks()) == [4]


@pytest.mark.parametrize("can_see", [True, None])
def test_a_model_that_sees_or_may_see_is_helped(can_see: bool | None) -> None:
    given = conversation(looks(), says(), looks())

    assert len(limit(given, can_see=can_see).conversation) == 1


def test_a_model_that_cannot_see_keeps_its_history() -> None:
    given = conversation(looks(), says(), looks())

    assert limit(given, can_see=False).conversation is given


def test_a_policy_that_is_off_changes_nothing() -> None:
    given = conversation(looks(), says(), looks())
    stage = LimitVisionHistory(LimitVisionHistoryPolicy(False, True, 0))

    assert stage(given, StageContext(can_see=True)).conversation is given


def test_it_is_named_after_its_file() -> None:
    assert LimitVisionHistory.name == "limit_vision_history"


# What docs/vision.md tells.


def test_readme_each_image_is_asked_about_alone() -> None:
    given = (system(), looks("one"), says(), looks("two"), says(), looks("three"))

    assert _kept(*given, turns=0) == [0, 5]


def test_readme_an_image_stays_while_it_is_discussed() -> None:
    one = (system(), looks(), says("A red car."))
    two = (*one, user("Which make?"), says("A Fiat."))
    three = (*two, user("How old?"), says("From 1970."), user("Still built?"))

    assert _kept(*one[:2], turns=2) == [0, 1]
    assert _kept(*two[:4], turns=2) == [0, 1, 2, 3]
    assert _kept(*three[:6], turns=2) == [0, 1, 2, 3, 4, 5]
    assert _kept(*three, turns=2) == [0, 3, 4, 5, 6, 7]
    assert _kept(*two[:4], turns=0) == [0, 3]


def test_readme_two_images_are_compared() -> None:
    together = (system(), user(), says(), user([text("Which?"), image(), image()]))
    apart = (system(), looks(), says("A cat."), looks("Is this the same cat?"))

    assert _kept(*together, turns=0) == [0, 3]
    assert _kept(*apart, turns=0) == [0, 3]
    assert _kept(*apart, turns=1) == [0, 1, 2, 3]
