import gzip
from pathlib import Path
from typing import Any

import orjson

from bench.conversation.dialogues.data import CLOSING, Question, dialogue, read
from bench.conversation.dialogues.evidence import Evidence

TALK: dict[str, Any] = {
    "speakers": ["Ann", "Bob"],
    "sessions": [
        {
            "date": "1 May, 2023",
            "turns": [
                {"speaker": "Bob", "id": "D1:1", "text": "I bought a xylophone in Lisbon."},
                {"speaker": "Bob", "id": "D1:2", "text": "It was cheap."},
                {"speaker": "Ann", "id": "D1:3", "text": "My cello is older."},
            ],
        },
        {
            "date": "2 May, 2023",
            "turns": [
                {"speaker": "Ann", "id": "D2:1", "text": "We rehearse on Thursday."},
                {"speaker": "Bob", "id": "D2:2", "text": "I bring sandwiches."},
                {"speaker": "Ann", "id": "D2:3", "text": "Lovely."},
            ],
        },
    ],
    "qa": [
        {"question": "What did Bob buy?", "answer": "a xylophone", "evidence": ["D1:1"]},
        {"question": "What is in D9?", "answer": "?", "evidence": ["D9:1"]},
        {"question": "Who?", "answer": "nobody", "evidence": []},
        {"question": "What do they eat?", "answer": "sandwiches", "evidence": ["D1:3", "D2:2"]},
    ],
}


def test_whoever_speaks_first_is_the_user() -> None:
    messages = dialogue(TALK).messages

    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]


def test_turns_in_a_row_become_one_message_and_a_session_begins_with_its_date() -> None:
    messages = dialogue(TALK).messages

    assert messages[1]["content"] == "[1 May, 2023] I bought a xylophone in Lisbon.\nIt was cheap."
    assert messages[2]["content"] == "My cello is older.\n[2 May, 2023] We rehearse on Thursday."


def test_the_last_request_has_the_whole_dialogue_and_asks() -> None:
    given = dialogue(TALK)

    requests = given.requests()

    assert [len(request["messages"]) for request in requests] == [2, 4, 6]
    assert requests[-1]["messages"][-1]["content"] == CLOSING
    assert all("max_tokens" not in request for request in requests)


def test_only_questions_with_evidence_in_the_dialogue_are_asked() -> None:
    assert [question.evidence for question in dialogue(TALK).questions] == [
        ("D1:1",),
        ("D1:3", "D2:2"),
    ]


def test_a_question_is_asked_once_its_evidence_was_said() -> None:
    given = dialogue(TALK)

    assert len(given.questions_about(2)) == 1
    assert len(given.questions_about(4)) == 2


def test_a_file_is_read_gzipped_or_plain(tmp_path: Path) -> None:
    plain, zipped = tmp_path / "one.json", tmp_path / "one.json.gz"
    plain.write_bytes(orjson.dumps([TALK]))
    zipped.write_bytes(gzip.compress(orjson.dumps([TALK])))

    assert read(plain) == read(zipped) == [dialogue(TALK)]


def test_half_of_the_rare_words_of_every_turn_make_a_question_answerable() -> None:
    given = dialogue(TALK)
    evidence = Evidence(given.turns)

    assert evidence.answered(given.questions, "a Xylophone, and Lisbon; sandwiches") == 1
    assert evidence.answered(given.questions, "the older cello, and he will bring food") == 1
    assert evidence.answered(given.questions, "nothing of all that") == 0


def test_a_part_of_a_word_is_not_the_word() -> None:
    given = dialogue(TALK)

    assert Evidence(given.turns).answered(given.questions, "xylophones boughten Lisbons") == 0


def test_a_word_that_many_turns_have_marks_none_of_them() -> None:
    turns = {f"D1:{number}": "the lighthouse" for number in range(9)} | {"D2:1": "lighthouse fog"}
    evidence = Evidence(turns)
    question = Question("What was there?", ("D2:1",))

    assert evidence.answered([question], "a lighthouse") == 0
    assert evidence.answered([question], "some fog") == 1
