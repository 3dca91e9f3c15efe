"""C16, C17: what a summary model must not bring in, and what must not reach it."""

import json

import pytest

from tests.journeys.summaries.tellings import adding, telling
from tests.journeys.summaries.troubles import (
    folded_text,
    history,
    is_passed_by,
    outcome,
    troubled,
)
from tests.support.fake_model import fake_model
from tests.support.summary_model import (
    SummaryModel,
    good,
    written,
)
from tests.unit.chat.shapes import text, user

pytestmark = pytest.mark.anyio


async def test_c16_addresses_and_keys_that_nobody_wrote_are_removed() -> None:
    """BUGS 30."""
    key = "sk-proj-9fK2mX7pQ4rT8vW1zB6nC3"
    invented = adding(f"See https://evil.example/x and use {key}")
    async with troubled(invented) as trouble:
        answered = await trouble.ask(history())

        assert outcome(answered) == "built"
        assert "evil.example" not in json.dumps(trouble.sent)
        assert key not in json.dumps(trouble.sent)


async def test_c16_addresses_of_the_conversation_are_kept() -> None:
    given = history()
    given[3] = user("Our tracker is https://tracker.example/board/7 and no other.")
    async with troubled(adding("Tracker: https://tracker.example/board/7")) as trouble:
        answered = await trouble.ask(given)

        assert outcome(answered) == "built"
        assert "- Tracker: https://tracker.example/board/7" in folded_text(trouble.sent)


async def test_c16_a_summary_full_of_inventions_is_refused() -> None:
    """BUGS 30."""
    many = " ".join(f"https://evil{number}.example/" for number in range(9))
    async with troubled(adding(many)) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert trouble.failures("foreign") == 1


async def test_c16_a_summary_of_something_else_is_refused() -> None:
    """BUGS 30: an invented goal never stands for a conversation."""
    invented = [
        "Plan the wedding of Priya and Tom in Tuscany for eighty guests on 14 June",
        "The caterer Rossi wants a deposit of 2,500 euros before Easter",
        "Aunt Margaret is allergic to walnuts, and Uncle Henry arrives from Lisbon by train",
    ]
    async with troubled(telling(written(invented))) as trouble:
        answered = await trouble.ask(history())

        assert is_passed_by(trouble, answered)
        assert len(trouble.questions) == 1
        assert trouble.failures("ungrounded") == 1


async def test_c17_media_keys_and_headers_do_not_reach_a_summary_model_elsewhere() -> None:
    """BUGS 34."""
    payload = "JVBERi0xLjcKJcfsj6IK" * 50
    part = {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{payload}"}}
    given = history()
    given[3] = user([text("What does this say?"), part])
    hidden = {"authorization": "Bearer client-key", "cookie": "session=1", "x-tenant": "walrus"}
    small = SummaryModel(good, names=("small",))
    async with fake_model(small) as other:
        summary = {"base_url": other.url, "model": "small"}
        vision = {"truncate_history": False}
        async with troubled(summary=summary, vision=vision) as trouble:
            headers = [f"{name}: {value}" for name, value in hidden.items()]
            answered = await trouble.ask(given, *headers, user="ann")

            assert outcome(answered) == "built"
            bodies = [question.received.body for question in small.summaries]
            assert not any(payload[:40].encode() in body for body in bodies)
            assert any(b"[document: application/pdf]" in body for body in bodies)
            for question in small.summaries:
                assert not hidden.keys() & {name for name, _ in question.received.headers}
                assert "user" not in question.fields
            assert payload[:40] not in json.dumps(trouble.sent)


async def test_c17_a_summary_model_elsewhere_gets_its_own_key_and_no_other() -> None:
    small = SummaryModel(good, names=("small",))
    async with fake_model(small) as other:
        summary = {"base_url": other.url, "model": "small", "api_key": "small-key"}
        upstream = {"api_key": "upstream-key"}
        async with troubled(summary=summary, upstream=upstream) as trouble:
            await trouble.ask(history(18), "authorization: Bearer client-key")

            keys = {question.received.header("authorization") for question in small.summaries}
            assert keys == {"Bearer small-key"}
            chat = trouble.brain.chats[-1].received
            assert chat.header("authorization") == "Bearer upstream-key"
