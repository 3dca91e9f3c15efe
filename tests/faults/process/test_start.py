"""Row E11: what is configured wrongly does not start, and says why in one line."""

import asyncio
from pathlib import Path

import pytest

from chat_proxy.http.process.workers import CANNOT_START
from tests.support.command import run_command

pytestmark = pytest.mark.anyio


async def test_e11_a_broken_registry_or_a_missing_key_is_one_line_and_exit_2(
    tmp_path: Path,
) -> None:
    """There is no reload: whoever changes the file starts anew, or keeps what runs."""
    broken, keyless = tmp_path / "broken.json", tmp_path / "keyless.json"
    broken.write_text('[{"name": "a", "context_window": "wide"}]')
    keyless.write_text('[{"name": "a", "api_key_env": "KEY_OF_A"}]')

    first, second = await asyncio.gather(
        run_command("serve", REGISTRY_FILE=str(broken)),
        run_command("serve", REGISTRY_FILE=str(keyless)),
    )

    assert (first.code, second.code) == (2, 2)
    assert first.err.startswith(f"chat-proxy: {broken}: entry 1 ('a'): ")
    assert "takes its key from KEY_OF_A, which is not set" in second.err
    assert first.err.count("\n") == second.err.count("\n") == 1


async def test_e11_a_worker_that_cannot_start_stops_the_whole_with_a_clear_line() -> None:
    """The parent could read the registry from its input, the workers cannot."""
    ended = await run_command("serve", typed=b"[]", SERVER_WORKERS="2", REGISTRY_FILE="/dev/stdin")

    assert ended.code == CANNOT_START
    assert "the configuration cannot be used any more" in ended.err
    assert "/dev/stdin: is not JSON" in ended.err
    assert "a worker could not start, so all are stopped" in ended.err
    assert "Traceback" not in ended.err
