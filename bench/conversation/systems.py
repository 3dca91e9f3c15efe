"""What stands between the client and the model: nothing, a trim, us, or a peer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.contenders import Place, launch_chat_proxy
from bench.conversation.prompt import Json, Prompt, count, rendered
from bench.peers.headroom import launch_headroom
from bench.servers import Launch, Server, free_port

NO_PROXY, UNLIMITED, DROP_OLDEST = "no proxy", "no proxy, no limit", "drop oldest"
CHAT_PROXY, HEADROOM_CACHE, HEADROOM_TOKEN = "chat-proxy", "headroom, cache", "headroom, token"

Trim = Callable[[Json, int], Json]
Launcher = Callable[[Place], Launch]


def as_it_is(request: Json, window: int) -> Json:  # noqa: ARG001
    """Return the request."""
    return request


def drop_oldest(request: Json, window: int) -> Json:
    """Return the request without its oldest messages; only the instructions are safe."""
    first, *others = request["messages"]
    most = window - request.get("max_tokens", 1)
    sizes = [count(rendered(message)) for message in others]
    total = len(Prompt(request).tokens)
    dropped = 0
    while total > most and dropped < len(others) - 1:
        total -= sizes[dropped]
        dropped += 1
    return {**request, "messages": [first, *others[dropped:]]}


@dataclass(frozen=True, slots=True)
class System:
    """One way to send a session's requests."""

    name: str
    trim: Trim = as_it_is
    launch: Launcher | None = None
    is_limited: bool = True
    is_peer: bool = False


@asynccontextmanager
async def started(launch: Launcher, model_port: int, folder: Path) -> AsyncIterator[str]:
    """Run a proxy in front of the model until the block ends, and say where it listens."""
    async with served(launch, model_port, folder) as launched:
        yield f"http://127.0.0.1:{launched.port}"


@asynccontextmanager
async def served(launch: Launcher, model_port: int, folder: Path) -> AsyncIterator[Launch]:
    """Run a proxy in front of the model until the block ends, and say how it is called."""
    launched = launch(Place(free_port(), model_port, folder))
    server = Server(launched, folder)
    await asyncio.to_thread(server.__enter__)
    try:
        yield launched
    finally:
        await asyncio.to_thread(server.stop)


def _headroom(mode: str, place: Place) -> Launch:
    return launch_headroom(place, "--mode", mode)


SYSTEMS = (
    System(UNLIMITED, is_limited=False),
    System(NO_PROXY),
    System(DROP_OLDEST, drop_oldest),
    System(CHAT_PROXY, launch=launch_chat_proxy),
    System(HEADROOM_CACHE, launch=partial(_headroom, "cache"), is_peer=True),
    System(HEADROOM_TOKEN, launch=partial(_headroom, "token"), is_peer=True),
)
