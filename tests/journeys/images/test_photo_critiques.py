"""Photo after photo in a small window: each is answered, and what was said of others stays."""

import json
from pathlib import Path

import pytest

from chat_proxy.compaction.summary.fold_text import TITLE
from tests.journeys.images.photos import VisionServer, asks, looking, photo, sizes_in, tell
from tests.unit.chat.shapes import Fields, says, system, user

pytest.importorskip("PIL")
pytestmark = pytest.mark.anyio

SYSTEM = system("You are an art critic.")
WINDOW = 6_144
WHOLE_HISTORY = {"truncate_history": False}


def critique(number: int) -> str:
    return f"Critique {number}: the light of harbour{number} is soft. " + "The lines lead in. " * 9


async def test_six_critiques_in_a_row_and_the_earlier_ones_stay(tmp_path: Path) -> None:
    """No refusal, with the whole history kept: every earlier critique is in the prompt."""
    server = VisionServer(WINDOW)
    history: list[Fields] = [SYSTEM]
    async with looking(server, tmp_path, vision=WHOLE_HISTORY) as met:
        for number in range(6):
            history.append(asks("Criticise it.", photo(seed=number)))
            answer = await tell(met, history)

            assert answer.status == 200
            sent = server.prompts[-1]
            assert len(sizes_in(sent)) >= 1
            assert all(f"harbour{earlier}" in json.dumps(sent) for earlier in range(number))
            history.append(says(critique(number)))
    assert server.refused == 0
    assert len(server.prompts) == 6


async def test_with_the_defaults_a_question_about_all_has_all_critiques(tmp_path: Path) -> None:
    server = VisionServer(WINDOW)
    history: list[Fields] = [SYSTEM]
    async with looking(server, tmp_path) as met:
        for number in range(6):
            history.append(asks("Criticise it.", photo(seed=number)))
            assert (await tell(met, history)).status == 200
            assert len(sizes_in(server.prompts[-1])) == 1
            history.append(says(critique(number)))
        answer = await tell(met, [*history, user("Which of the six is the best?")])

    assert answer.status == 200
    assert server.refused == 0
    final = json.dumps(server.prompts[-1])
    assert all(f"harbour{number}" in final for number in range(6))
    assert len(sizes_in(server.prompts[-1])) >= 1


async def test_what_ten_folds_dropped_is_still_told(tmp_path: Path) -> None:
    """The notes of all dropped images are in the prompt, however often it was folded."""
    server = VisionServer(WINDOW)
    history: list[Fields] = [SYSTEM]
    async with looking(server, tmp_path, vision=WHOLE_HISTORY, summary={"enabled": True}) as met:
        for number in range(60):
            if number < 6:
                shown = asks(f"Look at {number}.", photo(1_200, 900, seed=number))
                history += [shown, says(f"A gull above buoy{number}. The sea is calm.")]
            filler = f"Thing {number} about paint, canvas and frames. " * 40
            history += [user(f"Question {number}: {filler}"), says(f"Answer {number}. {filler}")]
            answer = await tell(met, [*history, user(f"Now {number}?")])

            assert answer.status == 200
        final = json.dumps(server.prompts[-1])

    folds = {str(prompt[1]["content"]) for prompt in server.prompts if TITLE in str(prompt[1])}
    assert len(folds) >= 10
    assert sizes_in(server.prompts[-1]) == []
    assert all(f"buoy{number}" in final for number in range(6))
