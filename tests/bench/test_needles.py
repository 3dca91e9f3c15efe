from bench.conversation.needles import Needle, checkpoints, mean, recall
from bench.conversation.sessions import QUICK, agent_session, chat_session

RULE = Needle("u-ledger-1", planted=1, source="user")
FINDING = Needle("f-shard-2", planted=6, source="found")


def test_recall_is_the_share_of_keys_in_the_prompt() -> None:
    assert recall([RULE, FINDING], 10, "as said: u-ledger-1") == 0.5


def test_what_is_not_planted_yet_is_not_asked_for() -> None:
    assert recall([RULE, FINDING], 6, "as said: u-ledger-1") == 1.0


def test_nothing_planted_gives_no_share() -> None:
    assert recall([FINDING], 3, "anything") is None


def test_a_refused_request_recalls_nothing() -> None:
    assert recall([RULE], 10, None) == 0.0


def test_the_last_request_is_always_asked() -> None:
    assert checkpoints(25, number=10)[-1] == 24
    assert checkpoints(3, number=10) == [0, 1, 2]


def test_the_mean_leaves_out_what_could_not_be_asked() -> None:
    assert mean([None, 1.0, 0.5]) == 0.75


def test_every_key_stands_in_its_message_and_not_before() -> None:
    for session in (agent_session(QUICK[0], 1), chat_session(QUICK[0], 1)):
        assert session.needles
        for needle in session.needles:
            places = [
                index
                for index, message in enumerate(session.messages)
                if needle.key in message["content"]
            ]
            assert places[0] == needle.planted


def test_the_same_seed_gives_the_same_session() -> None:
    one, other = agent_session(QUICK[0], 1), agent_session(QUICK[0], 1)

    assert one.messages == other.messages
    assert one.messages != agent_session(QUICK[0], 2).messages
