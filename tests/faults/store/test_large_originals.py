"""D14: a file that holds large originals beside the keys that are looked up."""

from pathlib import Path

import pytest

from chat_proxy.proxy.session.offloads import KIND
from chat_proxy.store.sqlite.store import SqliteStore
from tests.journeys.summaries.talking import label, long_chat, talking
from tests.support.summary_model import SummaryModel
from tests.unit.store.places import place_in, store_in_file

pytestmark = pytest.mark.anyio

WINDOW = 300_000
ORIGINALS = 24
ORIGINAL_BYTES = 1_900_000


async def test_d14_a_large_conversation_is_not_summarised_again_after_a_restart(
    tmp_path: Path,
) -> None:
    """Its checkpoint is searched in a file that holds the originals of many others."""
    store = SqliteStore(place_in(tmp_path), wait_seconds=20)
    await store.open()
    for number in range(ORIGINALS):
        key = store.address(b"%d" % number)
        assert await store.put(KIND, key, bytes(ORIGINAL_BYTES), 86_400, "others")
    await store.close()
    brain = SummaryModel(window=WINDOW)
    chat = long_chat(650, 640)
    async with talking(brain, window=WINDOW, store=store_in_file(tmp_path)) as talk:
        before = await talk.ask(chat)
    written = len(brain.summaries)

    async with talking(brain, window=WINDOW, store=store_in_file(tmp_path)) as talk:
        after = await talk.ask(chat)

    assert [label(it) for it in (before, after)] == ["built", "reused"]
    assert after.upstream == before.upstream
    assert len(brain.summaries) == written
