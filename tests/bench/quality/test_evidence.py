from bench.quality.evidence import Evidence
from bench.quality.recordings.dialogues import dialogue
from bench.quality.recordings.session import Question
from tests.bench.quality.test_dialogues import TALK


def test_half_of_the_rare_words_of_every_turn_make_a_question_answerable() -> None:
    given = dialogue(TALK)
    evidence = Evidence(given.texts)

    assert evidence.answered(given.questions, "a Xylophone, and Lisbon; sandwiches") == 1
    assert evidence.answered(given.questions, "the older cello, and he will bring food") == 1
    assert evidence.answered(given.questions, "nothing of all that") == 0


def test_a_part_of_a_word_is_not_the_word() -> None:
    given = dialogue(TALK)

    assert Evidence(given.texts).answered(given.questions, "xylophones boughten Lisbons") == 0


def test_a_word_that_many_turns_have_marks_none_of_them() -> None:
    turns = {f"D1:{number}": "the lighthouse" for number in range(9)} | {"D2:1": "lighthouse fog"}
    evidence = Evidence(turns)
    question = Question("What was there?", ("D2:1",))

    assert evidence.answered([question], "a lighthouse") == 0
    assert evidence.answered([question], "some fog") == 1


def test_word_for_word_is_the_whole_turn_whatever_its_spaces_and_marks() -> None:
    given = dialogue(TALK)
    evidence = Evidence(given.texts)

    assert evidence.verbatim(given.questions, "Bob:  I bought a\nxylophone in Lisbon") == 1
    assert evidence.verbatim(given.questions, "I bought a xylophone") == 0
    assert evidence.verbatim(given.questions, "My cello is older. I bring sandwiches.") == 1
