"""A proxy process for each client, and how one knows that it has nothing more to do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.contenders import Place, launch_chat_proxy
from bench.conversation.model import ScriptedModel
from bench.servers import Server, free_port

# An image may hide all turns before it, by a rule of its own that is not measured here.
SETTINGS = {"CHAT_PROXY_VISION_TRUNCATE_HISTORY": "false"}
SECONDS_BETWEEN_LOOKS = 0.005
QUIET_LOOKS = 3
_PROC = Path("/proc")
_ASLEEP = "SI"


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running proxy and the model behind it."""

    url: str
    process: int
    model: ScriptedModel

    async def idle(self) -> None:
        """Wait until the model answers nobody and all threads of the proxy sleep.

        On a busy machine a summary may be prepared later than the model's own patience lasts.
        """
        looks = 0
        while looks < QUIET_LOOKS:
            if looks == 0:
                await self.model.idle()
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            looks = looks + 1 if is_asleep(self.process) else 0


@asynccontextmanager
async def started(model: ScriptedModel, folder: Path) -> AsyncIterator[Proxy]:
    """Run a proxy in front of the model until the block ends."""
    place = Place(free_port(), model.port, folder)
    server = Server(launch_chat_proxy(place, settings=SETTINGS), folder)
    await asyncio.to_thread(server.__enter__)
    try:
        yield Proxy(f"http://127.0.0.1:{place.port}", server.session, model)
    finally:
        await asyncio.to_thread(server.stop)


def is_asleep(process: int) -> bool:
    """Tell whether no thread of a process runs, waits for a processor or for a disk."""
    return all(map(_is_asleep, (_PROC / str(process) / "task").glob("*/stat")))


def _is_asleep(stat: Path) -> bool:
    try:
        return stat.read_text().rpartition(")")[2].split()[0] in _ASLEEP
    except OSError:  # the thread has ended
        return True
