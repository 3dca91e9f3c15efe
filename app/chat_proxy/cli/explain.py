"""`chat-proxy explain FILE`: a request body as the proxy sees it, as a table or as JSON."""

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chat_proxy.chat.body.request import read_request
from chat_proxy.cli.progress import megabytes, progress
from chat_proxy.config.environment import BadConfiguration
from chat_proxy.config.settings import Settings
from chat_proxy.errors import BadRequest
from chat_proxy.proxy.reporting.explain import explain
from chat_proxy.proxy.routing.caller import NOBODY
from chat_proxy.proxy.services import Services
from chat_proxy.server import make_services
from chat_proxy.store.base import StoreUnavailable
from chat_proxy.store.factory import MEMORY, SQLITE

STANDARD_INPUT = "-"


def explain_file(
    settings: Settings, variables: Mapping[str, str], name: str, *, as_json: bool
) -> int:
    """Print what the proxy sees in a request body; raise BadConfiguration if it cannot be read."""
    body = read_body(name)
    services = make_services(without_new_store(settings), variables)
    try:
        with progress(f"counting {megabytes(len(body))}"):
            told = asyncio.run(explain_body(body, services))
    except BadRequest as error:
        raise BadConfiguration(f"{name}: {error.message}") from None
    except StoreUnavailable as error:
        raise BadConfiguration(f"CHAT_PROXY_STORE_URL: {error}") from None
    lines = [json.dumps(told, indent=2)] if as_json else table(told)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def read_body(name: str) -> bytes:
    """Return the file's bytes, or those of the standard input for `-`."""
    if name == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise BadConfiguration(f"{name}: {error.strerror}") from None


def without_new_store(settings: Settings) -> Settings:
    """Return settings by which what was learned is read, but no file is made to look into."""
    archive = settings.archive.model_copy(update={"enabled": False})
    store, url = settings.store, settings.store.url
    if url.startswith(SQLITE) and not Path(url.removeprefix(SQLITE)).exists():
        store = store.model_copy(update={"url": MEMORY})
    return settings.model_copy(update={"store": store, "archive": archive})


async def explain_body(body: bytes, services: Services) -> dict[str, Any]:
    """Return the explanation of a request body."""
    request = read_request(body, services.limits)
    await services.open()
    try:
        return await explain(request, NOBODY, services)
    finally:
        await services.close()


def table(told: dict[str, Any]) -> Iterator[str]:
    """Yield the explanation as lines for people."""
    yield from head(told)
    yield from outcome(told)
    yield ""
    yield f"{'#':>5} {'turn':>5} {'group':>5}  {'role':<10} {'tokens':>8} {'after':>8}  what"
    for message in told["messages"]:
        turn = "-" if message["turn"] is None else message["turn"]
        role = printable(message["role"])[:10]
        yield (
            f"{message['index']:>5} {turn:>5} {message['group']:>5}  {role:<10} "
            f"{message['tokens']:>8,} {after(message['after']):>8}  {listed(message['by_kind'])}"
        )
    if told["tools"]:
        yield ""
        yield f"{'tool':<40} {'tokens':>8}"
        for tool in told["tools"]:
            yield f"{printable(tool['name'])[:40]:<40} {tool['tokens']:>8,}"


def head(told: dict[str, Any]) -> Iterator[str]:
    """Yield what holds for the whole request."""
    tokens, window, budget = told["tokens"], told["window"], told["budget"]
    learned = tokens["calibration"]["lessons"]
    digits = " with single digits" if tokens["single_digits"] else ""
    source = f"calibrated by {learned} answers" if learned else "not calibrated yet"
    yield f"model   {printable(told['model']) or '(none)'}"
    yield (
        f"tokens  {tokens['total']:,} estimated; {tokens['counted']:,} counted by "
        f"{tokens['encoding']}{digits}, {source}"
    )
    yield f"        {listed(tokens['by_kind'])}"
    if window is None:
        yield "window  unknown; set it in the registry or by CHAT_PROXY_BUDGET_CONTEXT_WINDOW"
        return
    share = tokens["total"] / window["tokens"]
    yield f"window  {window['tokens']:,} ({window['source']}); this request fills {share:.0%}"
    yield (
        f"budget  usable {budget['usable']:,}, reserve {budget['reserve']:,}, "
        f"prepare at {budget['prepare']:,}, compact at {budget['trigger']:,}"
        + (": over it" if budget["is_over_trigger"] else "")
    )


def outcome(told: dict[str, Any]) -> Iterator[str]:
    """Yield what would be done to the request, stage by stage."""
    compaction = told["compaction"]
    yield f"mode    {told['mode']}; this request would be sent as: {compaction['outcome']}"
    for stage in compaction["stages"]:
        messages, tokens = stage["messages"], stage["tokens"]
        yield (
            f"stage   {stage['stage']}: {messages[0]} -> {messages[1]} messages, "
            f"{tokens[0]:,} -> {tokens[1]:,} tokens"
        )
    for stage in compaction["failed_stages"]:
        yield f"stage   {stage}: failed and was passed by"


def after(left: Mapping[str, Any]) -> str:
    """Return what is left of a message in tokens, or that nothing has changed."""
    return {"kept": "=", "dropped": "-"}.get(left["change"], f"{left['tokens']:,}")


def listed(kinds: Mapping[str, int]) -> str:
    """Return kinds of tokens as a list of words."""
    return ", ".join(f"{kind} {tokens:,}" for kind, tokens in kinds.items() if tokens)


def printable(text: str) -> str:
    """Return a text that cannot play tricks on a terminal."""
    return text if text.isprintable() else ascii(text)[1:-1]
