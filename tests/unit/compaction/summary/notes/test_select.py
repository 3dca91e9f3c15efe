"""Notes without a model: what is kept of messages in how many tokens."""

import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_proxy.chat.message import Message
from chat_proxy.chat.tool_names import call_of_results
from chat_proxy.compaction.summary.notes.select import notes
from chat_proxy.tokens.token_counter import rough_tokens
from tests.unit.chat.shapes import (
    SURROGATE,
    Fields,
    conversation,
    histories,
    odd_messages,
    says,
    system,
    user,
)
from tests.unit.compaction.examples import tool_step

ROOM = 2_000


def taken(*messages: Fields, known: str = "", room: int = ROOM, first: int = 0) -> str:
    talk = conversation(*messages)
    numbered = list(enumerate(talk.messages, first))
    calls = {first + index: call for index, call in call_of_results(talk).items()}
    return notes(numbered, calls, known, room, rough_tokens)


def words(chance: random.Random, count: int) -> str:
    """Return words that occur again and again."""
    common = ("value", "result", "system", "request", "number", "process", "message", "table")
    return " ".join(chance.choice(common) for _ in range(count))


def test_of_nothing_there_are_no_notes() -> None:
    assert taken() == ""
    assert taken(user(""), says(None), system("")) == ""


def test_each_line_has_the_message_s_number_and_speaker() -> None:
    found = taken(
        user("Caroline lives in Basel."),
        says("Her dog is called Rex."),
        *tool_step("1", "bash", "port: 8443", command="cat env"),
        first=7,
    )

    assert found.splitlines() == [
        "#7 user: Caroline lives Basel.",
        "#8 assistant: dog called Rex.",
        "#10 bash(command: cat env) → 10 chars | port: 8443",
    ]


def test_notes_are_in_the_order_of_the_messages() -> None:
    found = taken(*(user(f"Stop {number} is called Name{number}ville.") for number in range(40)))

    numbers = [int(line.split()[0][1:]) for line in found.splitlines()]
    assert numbers == sorted(numbers)
    assert len(numbers) == len(set(numbers)) > 30


def test_an_allergy_is_kept_with_the_sentence_that_asks_to_remember_it() -> None:
    """Issue 20: without a model, among much else."""
    chance = random.Random(1)
    talk = [
        message
        for number in range(60)
        for message in (user(f"Topic {number}: {words(chance, 30)}."), says(words(chance, 60)))
    ]
    talk[9:9] = [user("I am allergic to peanuts. Please always remember that."), says("Noted.")]

    found = taken(*talk, room=300)

    assert "I am allergic to peanuts. Please always remember that." in found


def test_all_demands_are_kept_before_anything_else() -> None:
    chance = random.Random(2)
    demands = [f"Never restart the {name} service at night." for name in ("alpha", "beta", "gamma")]
    talk = [message for demand in demands for message in (user(demand), says(words(chance, 400)))]

    found = taken(*talk, room=150)

    assert all(demand in found for demand in demands)


def test_where_all_demands_are_too_long_each_is_kept_in_few_words() -> None:
    demands = [
        f"I have told you that you must not touch the pump in the house of number {number}."
        for number in range(20)
    ]
    in_full = sum(map(rough_tokens, demands))

    found = taken(*map(user, demands), room=in_full)

    assert "#0 user: told must not touch pump house number 0." in found
    assert "#19 user: told must not touch pump house number 19." in found
    assert demands[0] in taken(*map(user, demands), room=4 * in_full)


@pytest.mark.parametrize(
    "wrapper",
    [
        "<path>/srv/{0}.py</path>\n<type>file</type>\n<content>\n{1}\n</content>",
        "<path>/srv/{0}.py</path><content>{1}",
        "<file path='{0}.py'>\n{1}\n</file>",
        "{1}",
    ],
)
def test_of_34_files_each_keeps_its_code(wrapper: str) -> None:
    """Issue 20: 34 lines `- result: <path>…</path>`, and not one of the codes."""
    chance = random.Random(3)
    codes = [f"CODE_{chance.randrange(16**6):06x}" for _ in range(34)]
    steps: list[Fields] = []
    for number, code in enumerate(codes):
        lines = [f"{line}: {words(chance, 8)}" for line in range(1, 60)]
        lines[chance.randrange(59)] = f"30: ACCESS = '{code}'"
        content = wrapper.format(number, "\n".join(lines))
        steps += tool_step(f"c{number}", "read_file", content, path=f"/srv/{number}.py")

    found = taken(user("Read all files."), *steps, room=ROOM)

    assert sum(code in found for code in codes) == 34


def test_25_failing_tests_survive_among_long_results() -> None:
    """Issue 20: one of 25 did."""
    chance = random.Random(4)
    failing = [f"FAILED tests/test_{n}.py::test_{words(chance, 1)}_{n}" for n in range(25)]
    steps: list[Fields] = []
    for number, line in enumerate(failing):
        noise = "\n".join(words(chance, 10) for _ in range(70))
        output = f"{noise[:2_500]}\n{line}\n{noise[2_500:5_000]}"
        steps += tool_step(f"c{number}", "bash", output, command=f"pytest tests/test_{number}.py")

    found = taken(user("Run the tests."), *steps, room=ROOM)

    assert sum(line in found for line in failing) == 25


def test_of_a_log_two_lines_are_left_and_the_odd_one_out() -> None:
    log = [f"10:00:{n % 60:02} GET /item/{n} 200 in {n} ms" for n in range(400)]
    log[200] = "10:00:20 worker Zephyr lost its lease"

    found = taken(*tool_step("1", "bash", "\n".join(log), command="tail"))

    assert found.count(" GET ") <= 2
    assert "Zephyr" in found


def test_what_is_known_is_not_noted_again() -> None:
    talk = [user("Caroline lives in Basel."), says("Her dog is called Rex.")]

    found = taken(*talk, known="- Caroline lives in Basel")

    assert "Basel" not in found
    assert "Rex" in found


def test_a_demand_that_the_known_text_has_is_not_noted_again() -> None:
    assert taken(user("Never touch main."), known="Rules: Never touch main.") == ""


def test_rare_words_come_before_common_ones() -> None:
    chance = random.Random(5)
    talk = [user(words(chance, 40)) for _ in range(50)]
    talk[25] = user(f"{words(chance, 5)} Zanzibar 4711. {words(chance, 20)}")

    found = taken(*talk, room=60)

    assert "Zanzibar 4711" in found


def test_the_room_is_used() -> None:
    chance = random.Random(6)
    talk = [
        user(f"Stop {n} is {chance.randrange(10**6)}, called Town{n}, {words(chance, 4)}.")
        for n in range(400)
    ]

    for room in (200, 600, 1_500):
        assert 0.85 * room <= rough_tokens(taken(*talk, room=room)) <= room


def test_without_room_there_are_no_notes() -> None:
    assert taken(user("Never touch src/a.py!"), room=0) == ""
    assert taken(user("Never touch src/a.py!"), room=-5) == ""


def test_notes_of_notes_add_nothing() -> None:
    talk = [user("Never touch main!"), says("Port 8443 is open."), user("see src/a.py")]
    first = taken(*talk)

    assert taken(*talk, known=first) == ""


@given(histories | st.lists(odd_messages, max_size=6), st.integers(-1, 80))
def test_any_messages_give_notes_within_their_room(messages: list[Any], room: int) -> None:
    before = repr(messages)
    span = list(enumerate(map(Message, messages)))

    found = notes(span, {}, "", room, rough_tokens)

    assert not found or rough_tokens(found) <= room
    assert found == notes(span, {}, "", room, rough_tokens)
    assert found.encode().decode() == found
    assert repr(messages) == before
    assert all(line.startswith("#") for line in found.splitlines())


def test_a_counter_that_finds_more_in_the_whole_than_in_its_parts_is_obeyed() -> None:
    def stingy(text: str) -> int:
        return len(text) if "\n" in text or " | " in text else 1

    talk = conversation(*(user(f"name_{n} is {n}7 ms") for n in range(30)))

    found = notes(list(enumerate(talk.messages)), {}, "", 90, stingy)

    assert stingy(found) <= 90


def test_half_characters_are_made_whole() -> None:
    """FAULTS A4"""
    assert taken(user(SURROGATE), *tool_step("1", "bash", f"{SURROGATE} port: 1")).encode()


ODD = [
    " ", "!\n ", "1.", '"a', "a/b ", "\\/", "http://a ", "error ", "must. ", "必须", "a_", "data:",
    "[image: ", "a::", "::", "Test-", "1 is ", "a=", "<path>", "é", "x.\n", "FAILED a::b\n",
]  # fmt: skip


@pytest.mark.parametrize("bomb", ODD)
def test_a_text_made_to_hurt_takes_no_time(bomb: str) -> None:
    long = bomb * (100_000 // len(bomb))
    started = time.process_time()

    taken(user(long), says(long), *tool_step("1", "bash", long, command=long))

    assert time.process_time() - started < 1.5


def test_thousands_of_failing_tests_take_no_time() -> None:
    steps = [
        message
        for run in range(20)
        for message in tool_step(
            f"c{run}", "bash", "\n".join(f"FAILED a_{run}.py::test_{n}" for n in range(900))
        )
    ]
    started = time.process_time()

    found = taken(user("Run the tests."), *steps)

    assert "FAILED a_19.py::test_899" in found
    assert time.process_time() - started < 2


def test_ten_times_the_messages_take_about_ten_times_the_time() -> None:
    def seconds(size: int) -> float:
        chance = random.Random(7)
        steps = [
            message
            for number in range(size)
            for message in tool_step(
                f"c{number}", "bash", "\n".join(words(chance, 9) for _ in range(50))
            )
        ]
        started = time.process_time()
        taken(*steps, room=4_000)
        return time.process_time() - started

    seconds(10)
    assert seconds(300) < 30 * max(seconds(30), 0.02)
