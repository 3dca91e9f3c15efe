"""What stands between a recorded conversation and the model: nothing, a trim, us, or a peer."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import aiohttp

from bench.contenders import Contender, Place, launch_chat_proxy
from bench.conversation.model import SUMMARY_MODEL, ScriptedModel, Summarise, running
from bench.conversation.prompt import Json, Prompt
from bench.conversation.replay import client_session
from bench.conversation.senders import (
    ANSWER_SHARE,
    Dropping,
    Sender,
    Summarising,
    ThroughProxy,
    Whole,
)
from bench.conversation.sessions import MODEL
from bench.conversation.summarisers.extractive import extract, extract_tersely
from bench.conversation.systems import Launcher, served
from bench.peers.agentic_api import (
    AGENTIC_API_VERSION,
    install_agentic_api,
    launch_agentic_api,
)
from bench.peers.headroom import HEADROOM_VERSION, install_headroom, launch_headroom
from bench.peers.litellm import LITELLM_VERSION, install_litellm, launch_litellm
from bench.quality.gateways import ThroughMessages, ThroughResponses
from bench.servers import Launch
from chat_proxy import __version__

ENDLESS, DROP_OLDEST, OWN_SUMMARY = "no proxy, endless window", "drop oldest", "own summary at 80 %"
HEADROOM, LITELLM, AGENTIC_API = "headroom", "LiteLLM, compaction", "agentic-api, compaction"
CHAT_PROXY, EXTRACTIVE, NO_MODEL = (
    "chat-proxy",
    "chat-proxy, extractive model",
    "chat-proxy, no model",
)
OWN = (CHAT_PROXY, EXTRACTIVE, NO_MODEL)
THRESHOLDS = (0.4, 0.5, 0.6, 0.7, 0.9)
"""Other values of `BUDGET_THRESHOLD`: what they cost and keep."""
DEFAULT_THRESHOLD = 0.8
# A summary in the background is not ready before the chat request arrives, unless this is over.
SECONDS_TO_SUMMARISE = 0.5


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a system runs: the fields of requests beside their messages, the window, a folder."""

    options: Json
    window: int
    folder: Path


Open = Callable[[Setting], AbstractAsyncContextManager[Sender]]
MakeSender = Callable[[aiohttp.ClientSession, str, ScriptedModel, Json, dict[str, str]], Sender]


@dataclass(frozen=True, slots=True)
class System:
    """One way to send the requests of a session."""

    name: str
    open: Open
    version: str = ""
    install: Callable[[], Contender] | None = None


def no_summary(prompt: Prompt) -> None:
    """Write nothing: there is no model for summaries."""


def _limited(summarise: Summarise, max_tokens: int, prompt: Prompt) -> str | None:
    """Write a summary; where a request sets no limit, it is as long as a client's own would be."""
    return summarise(Prompt({"max_tokens": max_tokens, **prompt.fields}))


@asynccontextmanager
async def _alone(make: Callable[[Setting], Sender], setting: Setting) -> AsyncIterator[Sender]:
    yield make(setting)


@asynccontextmanager
async def _behind(
    launch: Launcher, make: MakeSender, summarise: Summarise, setting: Setting
) -> AsyncIterator[Sender]:
    """Yield a sender through a gateway of its own, in front of a model of its own."""
    limited = partial(_limited, summarise, setting.window // ANSWER_SHARE)
    model = ScriptedModel(setting.window, limited, SECONDS_TO_SUMMARISE)
    async with (
        running(model),
        served(launch, model.port, setting.folder) as launched,
        client_session() as client,
    ):
        url = f"http://127.0.0.1:{launched.port}"
        yield make(client, url, model, setting.options, launched.headers)


def _behind_litellm() -> Open:
    launch = partial(
        launch_litellm, model=MODEL, provider="hosted_vllm", summary_model=SUMMARY_MODEL
    )
    return partial(_behind, launch, ThroughMessages, extract_tersely)


def _behind_headroom() -> Open:
    return partial(_behind, _token_headroom, ThroughProxy, extract_tersely)


def _token_headroom(place: Place) -> Launch:
    return launch_headroom(place, "--mode", "token")


def _behind_agentic_api() -> Open:
    return partial(_behind, launch_agentic_api, ThroughResponses, extract_tersely)


def _behind_chat_proxy(summarise: Summarise, settings: Mapping[str, str] | None = None) -> Open:
    launch = partial(launch_chat_proxy, settings=settings)
    return partial(_behind, launch, ThroughProxy, summarise)


def systems() -> Iterator[System]:
    """Yield the systems in the order of the tables."""
    yield System(ENDLESS, partial(_alone, lambda it: Whole(it.options)))
    yield System(DROP_OLDEST, partial(_alone, lambda it: Dropping(it.window, it.options)))
    own = partial(_alone, lambda it: Summarising(it.window, extract_tersely, it.options))
    yield System(OWN_SUMMARY, own)
    yield System(HEADROOM, _behind_headroom(), HEADROOM_VERSION, install_headroom)
    yield System(LITELLM, _behind_litellm(), LITELLM_VERSION, install_litellm)
    yield System(AGENTIC_API, _behind_agentic_api(), AGENTIC_API_VERSION, install_agentic_api)
    yield System(CHAT_PROXY, _behind_chat_proxy(extract_tersely), __version__)
    yield System(EXTRACTIVE, _behind_chat_proxy(extract), __version__)
    yield System(NO_MODEL, _behind_chat_proxy(no_summary), __version__)


def with_thresholds() -> Iterator[System]:
    """Yield chat-proxy with other thresholds, which are compared with each other alone."""
    for share in THRESHOLDS:
        settings = {"CHAT_PROXY_BUDGET_THRESHOLD": str(share)}
        behind = _behind_chat_proxy(extract_tersely, settings)
        yield System(threshold_name(share), behind, __version__)


def threshold_name(share: float) -> str:
    """Return the name of chat-proxy with a threshold."""
    return CHAT_PROXY if share == DEFAULT_THRESHOLD else f"{CHAT_PROXY}, threshold {share}"
