"""Which histories a checkpoint covers: those that say the same, and none that only look alike."""

from copy import deepcopy

import pytest

from chat_proxy.compaction.recognition.align import covers
from chat_proxy.compaction.recognition.digests import Digester
from tests.unit.chat.shapes import Fields, call, image, result, says, system, text, user
from tests.unit.proxy.session.recognition.histories import KEY, history

CLEARED = "[Old tool result content cleared]"
CLINE = "[[NOTE] This file read has been removed to save space in the context window. Refer to it]"
OUTPUT = "".join(f"line {number} of the output\n" for number in range(400))


def step(number: int, output: str | None = None) -> list[Fields]:
    """Return a question, a call, its result and an answer; no two alike."""
    asked = call(f"c{number}", f'{{"path": "{number}.py", "limit": 9}}')
    given = OUTPUT.replace("line", f"line {number}") if output is None else output
    return [
        user(f"Question {number}: " + "what is in it? " * 9),
        says(None, tool_calls=[asked]),
        result(f"c{number}", given),
        says(f"Answer {number}: " + "this is in it. " * 9),
    ]


def run(steps: int = 4) -> list[Fields]:
    return [message for number in range(steps) for message in step(number)]


def is_covered(
    known: list[Fields], given: list[Fields], until: int | None = None, folded: int = 0
) -> bool:
    """Return whether a checkpoint of all known messages covers all given ones."""
    one, other = history(*known), history(*given)
    covered = one.covered(len(known))
    candidate = other.candidate(len(given))
    made_of = len(known) - one.instructions if until is None else until
    return covers(covered, made_of, candidate, Digester(KEY), folded)


def changed(index: int, **fields: object) -> list[Fields]:
    messages = deepcopy(run())
    messages[index].update(fields)
    return messages


def test_an_equal_history_is_covered() -> None:
    assert is_covered(run(), run())
    assert is_covered([system("a"), *run()], [system("b"), system("c"), *run()])


def test_a_history_without_results_is_covered() -> None:
    talk = [user("a"), says("b"), user("c"), says("d")]

    assert is_covered(talk, talk)


@pytest.mark.parametrize(
    "note",
    [CLEARED, CLEARED + " [read_file: 12 KB]", CLINE, "[cleared]", "[cleared]\n"],
)
def test_a_result_may_be_a_clients_placeholder(note: str) -> None:
    assert is_covered(run(), changed(2, content=note))
    assert is_covered(run(), changed(10, content=note))


@pytest.mark.parametrize(
    "note", ["", "ok", "[cleared] or not", "cleared", "(no output)", f"x {CLEARED}", "{}"]
)
def test_any_other_short_result_is_another_history(note: str) -> None:
    assert not is_covered(run(), changed(2, content=note))


def test_a_placeholder_does_not_become_the_whole_result() -> None:
    """The summary was written without it."""
    assert not is_covered(changed(2, content=CLEARED), run())


def test_only_placeholders_are_no_evidence() -> None:
    cleared = run()
    for message in cleared:
        if message["role"] == "tool":
            message["content"] = CLEARED

    assert not is_covered(run(), cleared)
    cleared[2] = run()[2]
    assert is_covered(run(), cleared)


def test_placeholders_that_were_there_before_are_no_evidence() -> None:
    """A client cleared old results before the summary was written, and all of them later."""
    before, later = run(), run()
    before[2]["content"] = CLEARED
    for message in later:
        if message["role"] == "tool":
            message["content"] = CLEARED

    assert not is_covered(before, later)


def test_a_result_that_all_runs_have_is_no_evidence() -> None:
    def cleaned(messages: list[Fields]) -> list[Fields]:
        return [{**it, "content": CLEARED} if it["role"] == "tool" else it for it in messages]

    assert not is_covered([*step(0, "ok"), *run()], [*step(0, "ok"), *cleaned(run())])


def whole() -> str:
    content = run()[2]["content"]
    assert isinstance(content, str)
    return content


@pytest.mark.parametrize(
    "cut",
    [
        whole()[:2_000] + "\n[... truncated]",
        whole()[:2_000] + "\n... [CONTENT TRUNCATED] ...\n" + whole()[-1_500:],
        whole()[:400] + "\n\n<Output too long: 9,000 characters>",
        whole()[:140] + "\u2026 1,200 tokens truncated \u2026" + whole()[-200:],
        f"{whole()[:5_000]}\n(the rest is omitted) <system-reminder>x</system-reminder>",
    ],
)
def test_a_result_may_be_the_same_text_cut(cut: str) -> None:
    assert is_covered(run(), changed(2, content=cut))


@pytest.mark.parametrize(
    "cut",
    [
        whole()[:2_000],
        whole()[:100] + "\n[... truncated]",
        "x" + whole()[:2_000] + "\n[... truncated]",
        whole()[:50] + "x" + whole()[51:2_000] + "\n[... truncated]",
        whole()[:1_700] + "x" + whole()[1_701:2_000] + "\n[... truncated]",
        whole()[:1_000] + "\n[... truncated]\n" + whole()[-2_000:-1_600] + "x" + whole()[-1_599:],
        whole()[:1_000] + "\n[... truncated]\n" + "x" * 1_000,
        whole()[:1_000] + "\n[... truncated]\n" + whole()[-1_010:-10],
        whole() + "\n[... truncated]",
        "[... truncated]",
    ],
)
def test_a_result_that_only_begins_alike_is_another_history(cut: str) -> None:
    assert not is_covered(run(), changed(2, content=cut))


def test_what_a_tool_itself_has_cut_is_no_beginning_of_another_run() -> None:
    """A nightly job whose tool shows the first lines of a log that grew."""
    head = whole()[:2_000]
    yesterday, today = (f"{head}\n[... {lines} lines truncated]" for lines in ("1,200", "90"))

    assert not is_covered(changed(2, content=yesterday), changed(2, content=today))


def test_a_result_that_is_merely_different_is_another_history() -> None:
    """The same calls with other results: a nightly job must not get yesterday's summary."""
    assert not is_covered(run(), changed(2, content=whole() + "one line more"))
    assert not is_covered(run(), changed(2, content=whole().replace("7", "8", 1)))


@pytest.mark.parametrize("index", [0, 4, 12])
def test_a_word_of_the_user_makes_another_history(index: int) -> None:
    assert not is_covered(run(), changed(index, content=f"{run()[index]['content']} Now!"))


@pytest.mark.parametrize("index", [3, 7, 15])
def test_a_word_of_the_model_makes_another_history(index: int) -> None:
    assert not is_covered(run(), changed(index, content=f"{run()[index]['content']} No."))


@pytest.mark.parametrize("index", [1, 13])
def test_an_argument_of_a_call_makes_another_history(index: int) -> None:
    arguments = '{"path": "other.py", "limit": 9}'

    assert not is_covered(run(), changed(index, tool_calls=[call("c0", arguments)]))


def test_a_user_message_does_not_become_a_placeholder() -> None:
    assert not is_covered(run(), changed(4, content=CLEARED))


def test_media_may_be_lost_but_not_changed_or_added() -> None:
    def seen(*parts: Fields) -> list[Fields]:
        return [user([text("see"), *parts]), says("ok"), *run(1)]

    picture, other = image(), image("http://host/other.png")
    note = text("[Old inline media cleared: image/png]")

    assert is_covered(seen(picture), seen())
    assert is_covered(seen(picture), seen(note))
    assert not is_covered(seen(picture), seen(other))
    assert not is_covered(seen(), seen(picture))
    assert not is_covered(seen(note), seen(text("[Old inline media cleared: image/gif]")))


def test_media_of_a_result_may_be_lost() -> None:
    def shown(*parts: Fields) -> list[Fields]:
        return [*run(1), *step(9)[:2], result("c9", [text("a picture"), *parts])]

    assert is_covered(shown(image()), shown())
    assert not is_covered(shown(image()), shown(text("another")))


@pytest.mark.parametrize("dropped", [1, 2, 3, 4, 8])
def test_the_oldest_messages_may_be_missing(dropped: int) -> None:
    assert is_covered(run(), run()[dropped:])


def test_what_is_left_must_be_the_newest_and_equal() -> None:
    left = run()[4:]

    assert not is_covered(run(), left[:-1])
    assert not is_covered(run(), [*left[:4], *left[5:]])
    left[0]["content"] += "!"
    assert not is_covered(run(), left)


def test_the_task_may_be_kept_in_front_of_what_is_missing() -> None:
    kept = [run()[0], *run()[6:]]

    assert is_covered(run(), kept, folded=1)
    assert not is_covered(run(), kept)
    kept[0] = user("Another task")
    assert not is_covered(run(), kept, folded=1)


def test_a_deleted_message_makes_another_history() -> None:
    for index in range(1, 12):
        assert not is_covered(run(), [*run()[:index], *run()[index + 1 :]], folded=9)
    assert not is_covered(run(), [*run()[:4], *run()[8:]], folded=4)


def test_parallel_results_may_have_lost_their_calls() -> None:
    known = [
        user("Go on."),
        says(None, tool_calls=[call("a"), call("b")]),
        result("a", OUTPUT),
        result("b", "B"),
        *run(2),
    ]

    assert is_covered(known, known[2:], folded=2)
    assert is_covered(known, known[3:], folded=1)
    assert is_covered(known, [known[0], *known[3:]], folded=2)
    assert not is_covered(known, known[2:])


def test_too_few_groups_are_no_evidence() -> None:
    assert is_covered(run(), run()[-5:])
    assert not is_covered(run(), run()[-4:])


def test_groups_without_a_user_are_no_evidence() -> None:
    answers = [says(f"Thought {number}: " + "so it goes. " * 30) for number in range(6)]

    assert not is_covered([*run(1), *answers], answers)
    assert is_covered([*run(1), *answers], [*run(1)[-4:], *answers])
    assert is_covered([user("a"), *run(1), *answers], [*run(1)[-4:], *answers])


def test_a_few_short_messages_are_no_evidence() -> None:
    """Many conversations end or begin with the same small talk."""
    small = [user("go on"), says("ok"), user("go on"), says("ok"), user("go on"), says("ok")]

    assert not is_covered([*run(), *small], small)
    assert is_covered([*run(), *small], [*run()[-4:], *small])


def test_a_longer_history_than_the_covered_one_is_not_covered() -> None:
    assert not is_covered(run(), [user("before"), *run()])


def test_a_checkpoint_without_digests_covers_nothing() -> None:
    assert not is_covered([], run(), until=16)


def test_of_a_very_long_history_the_older_part_must_be_the_same() -> None:
    many = [message for number in range(150) for message in step(number, f"output {number}")]
    pruned, edited = deepcopy(many), deepcopy(many)
    pruned[590]["content"] = CLEARED
    edited[0]["content"] = "Another question"

    assert is_covered(many, many)
    assert is_covered(many, pruned)
    assert not is_covered(many, edited)
    assert is_covered(many, many[200:])
    assert not is_covered(many, many[2:])


def test_a_key_of_another_scope_recognises_nothing() -> None:
    one, other = history(*run()), history(*run(), key=b"another".ljust(32))

    assert not covers(one.covered(16), 16, other.candidate(16), Digester(other.key))
