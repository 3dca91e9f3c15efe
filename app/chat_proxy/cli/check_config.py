"""`chat-proxy check-config`: print the effective configuration and probe the upstreams."""

import asyncio
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from chat_proxy.cli.terminal.flags import sources_of
from chat_proxy.config.documented import written
from chat_proxy.config.environment import read_settings, read_variables, shown
from chat_proxy.config.settings import PREFIX, Settings
from chat_proxy.errors import UpstreamError
from chat_proxy.proxy.routing.caller import ANONYMOUS
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.sizing.learned_windows import LearnedWindows
from chat_proxy.registry.model_card import ModelCard
from chat_proxy.upstream.discovery import Windows
from chat_proxy.wiring import make_services, refuse_to_expose_keys

ANSWERS = "answers"
NEEDS_KEY = "ok; it requires a key, which clients must send"


def run(options: Namespace) -> int:
    """Run the command."""
    env_file, flags = sources_of(options)
    settings, variables = read_settings(env_file, flags), read_variables(env_file)
    return check_config(settings, variables, probe=not options.no_probe)


def check_config(settings: Settings, variables: Mapping[str, str], *, probe: bool) -> int:
    """Print the effective configuration; return 1 if an upstream does not answer."""
    services = make_services(settings, variables)
    refuse_to_expose_keys(settings, services)
    for line in effective(settings, PREFIX):
        _print(line)
    for card in services.registry.cards:
        _print(f"model {card.name}: {describe(card)}")
    return asyncio.run(probe_all(services)) if probe else 0


def effective(model: BaseModel, prefix: str) -> Iterator[str]:
    """Yield every setting as a line of .env, keys masked; settings that are set are marked."""
    for name, value in model:
        if isinstance(value, BaseModel):
            yield from effective(value, f"{prefix}{name.upper()}_")
        else:
            mark = "  # set" if name in model.model_fields_set else ""
            yield f"{prefix}{name.upper()}={shown(prefix + name.upper(), written(value))}{mark}"


def describe(card: ModelCard) -> str:
    """Return a model's registry entry as one line."""
    facts = {
        "window": card.context_window,
        "vision": card.vision,
        "upstream": card.base_url,
        "key from": card.api_key_env,
        "aliases": ", ".join(card.aliases),
        "overrides": ", ".join(card.overrides),
    }
    return "; ".join(f"{name} {value}" for name, value in facts.items() if value not in (None, ""))


async def probe_all(services: Services) -> int:
    """Ask every upstream for its models; return 1 if one does not answer."""
    await services.open()
    try:
        answers = [await answer_of(services.windows, it) for it in upstream_routes(services)]
        for answer in answers:
            _print(f"upstream {answer.base_url}: {answer.described()}")
        await show_learned(services)
    finally:
        await services.close()
    return 0 if all(answer.answers for answer in answers) else 1


def upstream_routes(services: Services) -> list[ModelRoute]:
    """Return one route for each upstream, the common one last."""
    routes = [services.model_routes.of(card.name) for card in services.registry.cards]
    upstreams = {route.base_url: route for route in routes}
    common = services.model_routes.of("")
    upstreams.setdefault(common.base_url, common)
    return list(upstreams.values())


@dataclass(frozen=True, slots=True)
class UpstreamAnswer:
    """What an upstream said when it was asked for its models."""

    base_url: str
    answers: bool
    said: str
    windows: Mapping[str, int]

    def described(self) -> str:
        """Return the answer as one line, with the windows that it reports."""
        if self.said != ANSWERS:
            return self.said
        models = ", ".join(f"{name} (window {window})" for name, window in self.windows.items())
        return f"ok; {models or 'it reports no context windows'}"


async def answer_of(
    windows: Windows, route: ModelRoute, seconds: float | None = None
) -> UpstreamAnswer:
    """Ask an upstream for its models, for so many seconds at most."""
    base_url, credentials = route.base_url, route.credentials_for(ANONYMOUS)
    try:
        async with asyncio.timeout(seconds):
            listing = await windows.ask(base_url, credentials)
    except TimeoutError:
        return UpstreamAnswer(base_url, False, "no answer in time", {})
    except UpstreamError as error:
        if not credentials and "answered 401" in str(error):
            return UpstreamAnswer(base_url, True, NEEDS_KEY, {})
        return UpstreamAnswer(base_url, False, str(error), {})
    return UpstreamAnswer(base_url, True, ANSWERS, listing.windows)


async def show_learned(services: Services) -> None:
    """Print the limits that were learned from overflow errors."""
    learned_windows = services.sizing.learned_windows
    known = [name for card in services.registry.cards for name in (card.name, *card.aliases)]
    for name in known:
        await show_learned_of(learned_windows, services.model_routes.of(name).base_url, name)
    common = services.model_routes.of("")
    listing = await services.windows.of(common.base_url, common.credentials_for(ANONYMOUS))
    for name in sorted(listing.windows.keys() - set(known)):
        await show_learned_of(learned_windows, common.base_url, name)


async def show_learned_of(learned_windows: LearnedWindows, base_url: str, name: str) -> None:
    """Print the learned limits of one model, if there are any."""
    learned = await learned_windows.of(base_url, name)
    if learned is None:
        return
    limits = {"window": learned.limit, "prompt": learned.input_limit}
    shown_limits = "; ".join(f"{what} {tokens}" for what, tokens in limits.items() if tokens)
    _print(f"model {name}: learned from {base_url}: {shown_limits}")


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
