"""What stands between the client and the model: nothing, a trim, us, or a peer."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bench.contenders import Place, launch_chat_proxy
from bench.conversation.prompt import Json, Prompt, count, rendered
from bench.peers import launch_headroom
from bench.servers import Launch

NO_PROXY, UNLIMITED, DROP_OLDEST = "no proxy", "no proxy, no limit", "drop oldest"
CHAT_PROXY, HEADROOM_CACHE, HEADROOM_TOKEN = "chat-proxy", "headroom, cache", "headroom, token"

Trim = Callable[[Json, int], Json]


def as_it_is(request: Json, window: int) -> Json:  # noqa: ARG001
    """Return the request."""
    return request


def drop_oldest(request: Json, window: int) -> Json:
    """Return the request without its oldest messages; only the instructions are safe."""
    first, *others = request["messages"]
    most = window - request["max_tokens"]
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
    launch: Callable[[Place], Launch] | None = None
    is_limited: bool = True
    is_peer: bool = False


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
