"""The name by which a conversation's requests are put together."""

from typing import Any

import orjson

from chat_proxy.chat.body.parsed_body import RequestLimits
from chat_proxy.chat.body.prefixes import BodyPrefixes
from chat_proxy.chat.body.request import read_request
from chat_proxy.proxy.reporting.conversation_name import CHARS, name_of
from chat_proxy.store.memory import MemoryStore
from tests.unit.chat.shapes import conversation, image, says, system, text, user

STORE = MemoryStore(b"secret")


def name(*messages: dict[str, Any], tenant: str = "t") -> str:
    """Return the name."""
    return name_of(conversation(*messages), tenant, STORE)


def test_a_conversation_keeps_its_name_while_it_grows() -> None:
    begun = name(system(), user("one"))

    assert name(system(), user("one"), says("ok"), user("two")) == begun
    assert len(begun) == 12


def test_another_beginning_tenant_or_deployment_has_another_name() -> None:
    given = conversation(system(), user("one"))
    names = {
        name(system(), user("one")),
        name(system(), user("two")),
        name(system("Be rude"), user("one")),
        name(user("one")),
        name(system(), user("one"), tenant="other"),
        name_of(given, "t", MemoryStore(b"another secret")),
    }

    assert len(names) == 6


def test_texts_in_parts_count_and_media_do_not() -> None:
    assert name(user([text("a"), image()])) != name(user([text("b"), image()]))
    assert name(user([text("a"), image("x")])) == name(user([text("a"), image("y")]))
    assert name(user([text("a"), "b"])) != name(user([text("a"), "c"]))


def test_only_the_head_of_a_text_is_read() -> None:
    assert name(user("x" * CHARS + "a")) == name(user("x" * CHARS + "b"))


def test_what_nobody_understands_has_a_name_too() -> None:
    odd: list[dict[str, Any]] = [
        {"role": None, "content": 7},
        {"content": ["\ud800", 3, {"text": 4}]},
        {},
    ]

    assert len(name(*odd)) == 12
    assert len(name()) == 12


def test_a_conversation_that_is_not_read_again_has_the_same_name() -> None:
    limits = RequestLimits(max_depth=9, max_elements=99_999, max_messages=999, max_choices=9)
    talk = [system(), *(user(f"{n}" * 900) for n in range(40))]
    memory = BodyPrefixes()
    requests = [
        read_request(orjson.dumps({"messages": messages}), limits, memory)
        for messages in (talk, [*talk, says("ok")], [*talk, says("no")])
    ]

    talks = [request.conversation for request in requests if request.conversation is not None]

    for _ in range(2):
        names = {name_of(it, "t", STORE) for it in talks}
        others = {name_of(it, "other", STORE) for it in talks}

    assert names == {name(*talk)}
    assert others == {name(*talk, tenant="other")}
    assert "fields" not in vars(requests[-1])


def test_endless_roles_and_parts_have_a_name_too() -> None:
    parts = {"role": "system", "content": [{"type": "text", "text": "x" * CHARS}] * 8}
    loud = {"role": "x" * 1_000_000, "content": ""}
    odd = {"role": ["x"] * 1_000_000, "content": ""}

    for messages in ([parts] * 8, [loud, user("hi")], [odd, user("hi")]):
        assert len(name(*messages)) == 12


def test_a_long_beginning_is_told_from_another() -> None:
    parts = {"role": "system", "content": [{"type": "text", "text": "x" * CHARS}] * 8}

    assert name(*[parts] * 3, user("one")) == name(*[parts] * 3, user("one"), says("ok"))
    assert name(*[parts] * 3, user("one")) != name(*[parts] * 3, user("two"))
