from itertools import islice, pairwise

import pytest

from bench.conversation.loss.facts import COUNTS, TOOL_ONLY, facts
from bench.conversation.loss.script import Said, Script, picture
from bench.conversation.prompt import broken_pairs, images_of, rendered

FACTS = facts(1)


def test_there_are_two_hundred_facts_and_85_stand_only_in_tool_output() -> None:
    assert len(FACTS) == 200
    assert sum(COUNTS[kind] for kind in TOOL_ONLY) == 85
    assert COUNTS["user constraint"] == COUNTS["failing test"] == 25


def test_keys_are_unique_and_stand_in_sentence_and_note() -> None:
    assert len({fact.key for fact in FACTS}) == 200
    assert not any(one.key in other.said for one in FACTS for other in FACTS if one is not other)
    assert all(fact.key in fact.said and fact.key in fact.note for fact in FACTS)


@pytest.mark.parametrize("chars", [1_000, 5_000])
def test_every_fact_stands_in_one_message_of_the_right_role(chars: int) -> None:
    session = _session(chars)
    roles = {"user constraint": "user", "user fact": "user"} | dict.fromkeys(TOOL_ONLY, "tool")

    for fact in FACTS:
        holders = [said for said in session if fact.key in rendered(said.message)]
        assert len(holders) == 1
        assert fact in holders[0].facts
        assert holders[0].message["role"] == roles.get(fact.kind, "assistant")


@pytest.mark.parametrize("chars", [1_000, 5_000])
def test_results_with_facts_are_about_as_long_as_asked(chars: int) -> None:
    results = [
        said.message["content"]
        for said in _session(chars)
        if said.facts and said.message["role"] == "tool"
    ]

    assert len(results) == 13 + 15 + 15
    assert all(0.9 * chars < len(result) < 1.1 * chars for result in results)


def test_facts_do_not_always_stand_at_the_same_place() -> None:
    places = {
        said.message["content"].splitlines().index(line) * 5 // said.message["content"].count("\n")
        for said in _session(5_000)
        for fact in said.facts
        for line in said.message["content"].splitlines()
        if fact.key in line and said.message["role"] == "tool"
    }

    assert len(places) >= 5


def test_the_session_is_a_valid_chat_and_goes_on_after_the_facts() -> None:
    messages = [said.message for said in _session(1_000)]
    roles = [message["role"] for message in messages]

    assert roles[:2] == ["system", "user"]
    assert broken_pairs(messages) == 0
    assert ("user", "user") not in set(pairwise(roles))
    assert not any(said.facts for said in _session(1_000)[-40:])


def test_an_image_is_shown_and_described_once() -> None:
    session = _session(1_000)
    shown = [at for at, said in enumerate(session) if images_of(said.message)]

    assert len(shown) == 15
    assert all(session[at + 1].facts[0].kind == "image content" for at in shown)
    assert picture(1) != picture(2)


def test_the_same_seed_gives_the_same_session() -> None:
    assert _session(1_000) == _session(1_000)
    assert facts(1) == FACTS != facts(2)


def _session(chars: int) -> list[Said]:
    return list(islice(Script(FACTS, chars, 1).messages(), 400))
