"""`chat-proxy check-config`: what is configured, and whether the upstream agrees."""

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from chat_proxy.config.environment import shown
from chat_proxy.config.settings import PREFIX, Settings
from chat_proxy.errors import UpstreamError
from chat_proxy.proxy.routing.caller import NOBODY
from chat_proxy.proxy.services import Services
from chat_proxy.registry.model_card import ModelCard
from chat_proxy.server import make_services, refuse_to_give_keys_away


def check_config(settings: Settings, variables: Mapping[str, str], *, probe: bool) -> int:
    """Print the effective configuration; return 1 if an upstream does not answer."""
    services = make_services(settings, variables)
    refuse_to_give_keys_away(settings, services)
    for line in effective(settings, PREFIX):
        _print(line)
    for card in services.registry.cards:
        _print(f"model {card.name}: {describe(card)}")
    return asyncio.run(probe_all(services)) if probe else 0


def effective(model: BaseModel, prefix: str) -> Iterator[str]:
    """Yield every setting as a line of .env, keys masked; what somebody has set is marked."""
    for name, value in model:
        if isinstance(value, BaseModel):
            yield from effective(value, f"{prefix}{name.upper()}_")
        else:
            mark = "  # set" if name in model.model_fields_set else ""
            yield f"{prefix}{name.upper()}={shown(prefix + name.upper(), written(value))}{mark}"


def written(value: object) -> str:
    """Return a value as it would be written into .env."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(written(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return json.dumps(value)
    return str(value)


def describe(card: ModelCard) -> str:
    """Return what the registry says of a model."""
    told = {
        "window": card.context_window,
        "vision": card.vision,
        "upstream": card.base_url,
        "key from": card.api_key_env,
        "aliases": ", ".join(card.aliases),
        "overrides": ", ".join(card.overrides),
    }
    return "; ".join(f"{name} {value}" for name, value in told.items() if value not in (None, ""))


async def probe_all(services: Services) -> int:
    """Ask every upstream for its models; return 1 if one does not answer."""
    cards = {services.destinations.base_url_of(card): card for card in services.registry.cards}
    cards.setdefault(services.destinations.base_url, services.registry.find(""))
    await services.open()
    try:
        answers = [await probe_one(services, url, card) for url, card in cards.items()]
        await show_learned(services)
    finally:
        await services.close()
    return 0 if all(answers) else 1


async def probe_one(services: Services, base_url: str, card: ModelCard) -> bool:
    """Print what an upstream answers; return whether it does."""
    credentials = services.destinations.credentials_for(card, NOBODY)
    try:
        listing = await services.windows.ask(base_url, credentials)
    except (UpstreamError, TimeoutError) as error:
        if not credentials and "answered 401" in str(error):
            _print(f"upstream {base_url}: ok; it wants a key, which clients bring")
            return True
        _print(f"upstream {base_url}: {error or 'no answer in time'}")
        return False
    models = ", ".join(f"{name} (window {window})" for name, window in listing.windows.items())
    _print(f"upstream {base_url}: ok; {models or 'it tells no context windows'}")
    return True


async def show_learned(services: Services) -> None:
    """Print the limits that upstreams told when they refused what was too long."""
    for card in services.registry.cards:
        base_url = services.destinations.base_url_of(card)
        for name in (card.name, *card.aliases):
            await show_learned_of(services, base_url, name)
    base_url = services.destinations.base_url
    credentials = services.destinations.credentials_for(services.registry.find(""), NOBODY)
    listing = await services.windows.of(base_url, credentials)
    known = {name for card in services.registry.cards for name in (card.name, *card.aliases)}
    for name in sorted(listing.windows.keys() - known):
        await show_learned_of(services, base_url, name)


async def show_learned_of(services: Services, base_url: str, name: str) -> None:
    """Print what one model's upstream told, if it did."""
    learned = await services.learned_windows.of(base_url, name)
    if learned is None:
        return
    limits = {"window": learned.limit, "prompt": learned.input_limit}
    told = "; ".join(f"{what} {tokens}" for what, tokens in limits.items() if tokens)
    _print(f"model {name}: learned from {base_url}: {told}")


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
