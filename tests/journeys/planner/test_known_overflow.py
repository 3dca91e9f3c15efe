"""What is known to overflow is not sent as it is: output is clipped, the prompt is folded."""

import json
from typing import Any

import pytest

from tests.journeys.planner.tight import (
    SYSTEM,
    TELLINGS,
    WINDOW,
    before_strict_server,
    exchanges,
    is_intact,
    tokens_of,
    varied,
)
from tests.journeys.replay.small_server import Guest, guest_of, is_answer, label_of, stages_of
from tests.journeys.replay.truncating_server import TruncatingServer
from tests.support.fake_model import fake_model
from tests.unit.chat.shapes import Fields, says, user

pytestmark = pytest.mark.anyio


def asked_of(guest: Guest) -> int:
    """The output that the last request asked for."""
    document = json.loads(guest.calls[-1])
    return int(document.get("max_completion_tokens") or document["max_tokens"])


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("wanted", [4_096, 8_000, 32_000])
async def test_output_that_does_not_fit_beside_the_prompt_is_clipped_before_sending(
    wanted: int, field: str
) -> None:
    history: list[Fields] = [SYSTEM]
    clipped = 0
    async with before_strict_server() as guest:
        for number in range(25):
            history.append(user(varied(60, f"question {number}")))
            fields: dict[str, Any] = {field: wanted}
            does_overflow = tokens_of(history) + wanted > WINDOW
            answer = await guest.tell(history, **fields)
            assert is_answer(answer), (number, answer.body)
            assert is_intact(guest, history, **fields)
            assert guest.prompts[-1] + asked_of(guest) <= WINDOW
            assert asked_of(guest) >= min(wanted, 256)
            if does_overflow and label_of(answer) == "trimmed":
                clipped += 1
                assert stages_of(answer) == ["clip_output"]
                assert guest.last == history
            history.append(says(varied(240, f"answer {number}")))

    assert clipped >= 2
    assert guest.server.refusals == []
    assert len(guest.calls) == 25


@pytest.mark.parametrize("telling", TELLINGS)
@pytest.mark.parametrize(
    "sections",
    [{}, {"prune": {"enabled": False}}, {"summary": {"enabled": False}}],
    ids=["all", "no ageing", "no summaries"],
)
async def test_a_history_of_several_windows_is_folded_before_it_is_sent(
    sections: dict[str, Any], telling: str
) -> None:
    history = [SYSTEM, *exchanges(40, 900), user("Where were we?")]
    assert tokens_of(history) > 4 * WINDOW
    async with before_strict_server(telling=TELLINGS[telling], **sections) as guest:
        for number in range(3):
            answer = await guest.tell(history)
            assert is_answer(answer), (number, answer.body)
            assert is_intact(guest, history)
            history += [says(varied(200, number)), user(f"Go on with {number}.")]

    assert guest.server.refusals == []
    assert len(guest.calls) == 3
    assert max(guest.prompts) < WINDOW
    assert min(guest.prompts) > WINDOW / 4


async def test_a_server_that_would_truncate_silently_loses_nothing_of_the_head() -> None:
    history = [SYSTEM, *exchanges(40, 900), user("Where were we?")]
    server = TruncatingServer(num_ctx=WINDOW)
    async with fake_model(server) as model, guest_of(server, model, WINDOW) as guest:
        answer = await guest.tell(history)

    assert answer.status == 200
    assert len(guest.calls) == 1
    assert server.reports == guest.prompts
    assert server.seen().startswith(SYSTEM["content"])
    assert is_intact(guest, history)
