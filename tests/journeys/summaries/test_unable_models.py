"""A model that cannot write summaries is asked otherwise, then not at all; after an hour again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from chat_proxy.compaction.summary.prompt import SHORT_INSTRUCTION
from tests.journeys.summaries.tellings import telling
from tests.journeys.summaries.troubles import (
    Trouble,
    folded_text,
    history,
    is_passed_by,
    outcome,
    troubled,
)
from tests.support.fake_model import Line, fake_model
from tests.support.summary_model import (
    Question,
    SummaryModel,
    Telling,
    after,
    answer,
    chosen,
    empty,
    failing,
    good,
    unrepaired,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

HOUR = 3_600
TENANT = "authorization: Bearer another"


@dataclass
class Ability:
    """What a proxy remembers about its models, timed by a test."""

    trouble: Trouble
    now: float = 0.0
    conversations: int = 0

    def __post_init__(self) -> None:
        ability = self.trouble.met.proxy.services.compaction.summaries.ability
        ability._clock = lambda: self.now

    async def asked_how(self, *headers: str) -> set[str]:
        """Return how another conversation's summary is asked for: full, short, or not at all."""
        before = len(self.trouble.questions)
        self.conversations += 1
        await self.trouble.ask(history(19, name=f"talk{self.conversations}-"), *headers)
        return {
            "short" if SHORT_INSTRUCTION in question.texts[-1] else "full"
            for question in self.trouble.questions[before:]
        }


@asynccontextmanager
async def remembering(tell: Telling, **summary: object) -> AsyncIterator[Ability]:
    """Let a proxy meet a model that writes so."""
    async with troubled(tell, summary=summary) as trouble:
        yield Ability(trouble)


async def plain(question: Question, line: Line) -> None:
    """Write no section, ever: a list of facts if that is wished for, else too little."""
    is_short = SHORT_INSTRUCTION in question.texts[-1]
    facts = "\n".join(f"- {fact}" for fact in chosen(question))
    await answer(question, line, facts if is_short else "It was about notes.")


async def test_three_refusals_in_a_row_lead_to_the_short_instruction_and_then_to_silence() -> None:
    async with remembering(unrepaired) as ability:
        full = [await ability.asked_how() for _ in range(3)]
        ability.trouble.brain.telling = empty
        short = [await ability.asked_how() for _ in range(3)]
        silence = [await ability.asked_how() for _ in range(3)]

    assert full == [{"full"}] * 3
    assert short == [{"short"}] * 3
    assert silence == [set()] * 3


async def test_a_model_that_is_too_slow_for_sections_is_asked_for_a_list_of_facts() -> None:
    async with remembering(after(20), timeout_seconds=0.5) as ability:
        full = [await ability.asked_how() for _ in range(3)]
        ability.trouble.brain.telling = plain

        assert full == [{"full"}] * 3
        assert await ability.asked_how() == {"short"}
        assert folded_text(ability.trouble.sent)


async def test_while_it_is_silent_every_request_that_fits_goes_on_as_it_is() -> None:
    async with remembering(empty) as ability:
        for _ in range(6):
            await ability.asked_how()
        answered = await ability.trouble.ask(history(19, "late"))

        assert is_passed_by(ability.trouble, answered)


async def test_after_an_hour_it_is_asked_in_full_again() -> None:
    async with remembering(empty) as ability:
        for _ in range(6):
            await ability.asked_how()
        ability.trouble.brain.telling = good
        ability.now = HOUR - 1
        before = await ability.asked_how()
        ability.now = HOUR + 1
        after = await ability.asked_how()

        assert (before, after) == (set(), {"full"})
        assert folded_text(ability.trouble.sent)


async def test_what_it_lists_by_the_short_instruction_is_a_summary() -> None:
    async with remembering(plain) as ability:
        for _ in range(3):
            await ability.asked_how()
        answered = await ability.trouble.ask(history(19, "late"))

        assert outcome(answered) == "built"
        (*_, question) = ability.trouble.questions
        assert SHORT_INSTRUCTION in question.texts[-1]
        assert [message["role"] for message in question.messages] == ["system", "user"]
        fact = chosen(question)[-1]
        assert f"- {fact}" in folded_text(ability.trouble.sent)


async def test_a_summary_in_between_begins_the_count_anew() -> None:
    async with remembering(unrepaired) as ability:
        for _ in range(2):
            await ability.asked_how()
        ability.trouble.brain.telling = good
        await ability.asked_how()
        ability.trouble.brain.telling = unrepaired

        assert [await ability.asked_how() for _ in range(3)] == [{"full"}] * 3


@pytest.mark.parametrize("status", [400, 429, 500])
async def test_a_model_that_is_ill_is_not_unable(status: int) -> None:
    """An outage says nothing about what the model can write, however many come meanwhile."""
    async with remembering(failing(status)) as ability:
        for _ in range(14):
            await ability.asked_how()
        ability.trouble.now += 31
        ability.trouble.brain.telling = good

        assert await ability.asked_how() == {"full"}


async def test_what_one_tenant_sends_does_not_decide_for_another() -> None:
    async with remembering(empty) as ability:
        for _ in range(6):
            await ability.asked_how()

        assert await ability.asked_how() == set()
        assert await ability.asked_how(TENANT) == {"full"}


async def test_another_summary_model_is_judged_apart_from_the_own_one() -> None:
    """The small one is not asked any longer; the request's own model writes them all."""
    small = SummaryModel(telling("Some work was done."), window=32_000, names=("small",))
    async with fake_model(small) as other:
        summary = {"base_url": other.url, "model": "small"}
        async with troubled(good, summary=summary) as trouble:
            for number in range(8):
                answered = await trouble.ask(history(18, name=f"talk{number}-"))
                assert outcome(answered) == "built"

    styles = [SHORT_INSTRUCTION in question.texts[-1] for question in small.summaries]
    assert styles == sorted(styles)
    assert styles.count(True) == 3
    assert len(trouble.questions) == 8
