import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.quality.__main__ import groups_for
from bench.quality.recordings.dialogues import dialogue
from bench.quality.recordings.read import DIALOGUES, Recordings, UnknownFormat, read
from bench.quality.recordings.session import CLOSING, in_groups, joined

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


def test_there_is_a_request_for_each_answer_and_one_that_asks_at_the_end() -> None:
    requests = list(dialogue(TALK).requests())

    assert [len(messages) for messages in requests] == [2, 4, 6]
    assert requests[-1][-1]["content"] == CLOSING


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

    assert read(plain) == read(zipped) == (DIALOGUES, [dialogue(TALK)])


@pytest.mark.parametrize("content", [b"[]", b"{}", b'[{"messages": []}]'])
def test_a_file_of_another_format_is_refused_by_its_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)

    with pytest.raises(UnknownFormat, match=r"other\.json"):
        read(path)


def test_joined_dialogues_keep_their_evidence_at_its_place() -> None:
    one = dialogue(TALK)
    both = joined([one, one])

    assert len(both.questions) == 2 * len(one.questions)
    for question in both.questions:
        for key in question.evidence:
            assert both.texts[key] in both.messages[both.message_of[key]]["content"]
    assert both.message_of["2/D1:1"] > both.message_of["1/D2:2"]


def test_joined_dialogues_have_one_system_message_and_ask_once() -> None:
    one = dialogue(TALK)
    other = dialogue({**TALK, "speakers": ["Ann", "Cid"]})

    messages = joined([one, other]).messages

    assert [it["role"] for it in messages].count("system") == 1
    assert all(who in messages[0]["content"] for who in ("Ann", "Cid"))
    assert [it["content"] for it in messages].count(CLOSING) == 1
    assert messages[-1]["role"] == "user"


def test_too_few_at_the_end_make_no_group() -> None:
    assert len(in_groups([dialogue(TALK)] * 5, 2)) == 2
    assert in_groups([dialogue(TALK)], 2) == []


def test_sessions_of_the_same_recording_have_names_of_their_own() -> None:
    one, other = in_groups([dialogue(TALK)] * 2, 1)

    assert one.messages == other.messages
    assert one.name != other.name


def test_dialogues_are_joined_as_well_where_they_are_short_for_the_window() -> None:
    recordings = Recordings(DIALOGUES, [dialogue(TALK)] * 4)

    assert [(name, len(it)) for name, it in groups_for(recordings, 30)] == [("dialogues", 4)]
    assert [(name, len(it)) for name, it in groups_for(recordings, 8_192)] == [
        ("dialogues", 4),
        ("dialogues, joined by 2", 2),
    ]
