"""`chat-proxy explain FILE`: show how the proxy sees a request body, as a table or as JSON."""

import asyncio
import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from chat_proxy.cli.terminal.flags import sources_of
from chat_proxy.cli.terminal.progress import megabytes, progress
from chat_proxy.cli.terminal.read_body import read_body, without_new_store
from chat_proxy.config.environment import read_settings, read_variables
from chat_proxy.config.settings import Settings
from chat_proxy.errors import BadConfiguration, BadRequest
from chat_proxy.proxy.contracts.explained import explain_request
from chat_proxy.proxy.routing.caller import ANONYMOUS
from chat_proxy.proxy.services import Services
from chat_proxy.routes.read_request import read_any_wire
from chat_proxy.store.base import StoreUnavailable
from chat_proxy.telemetry.printable import printable
from chat_proxy.wiring import make_services


def run(options: Namespace) -> int:
    """Run the command."""
    env_file, flags = sources_of(options)
    settings, variables = read_settings(env_file, flags), read_variables(env_file)
    return explain_file(settings, variables, options.file, as_json=options.json)


def explain_file(
    settings: Settings, variables: Mapping[str, str], name: str, *, as_json: bool
) -> int:
    """Print what the proxy sees in a request body; raise BadConfiguration if it cannot be read."""
    body = read_body(name)
    services = make_services(without_new_store(settings), variables)
    try:
        with progress(f"counting {megabytes(len(body))}"):
            document = asyncio.run(explain_body(body, services))
    except BadRequest as error:
        raise BadConfiguration(f"{name}: {error.message}") from None
    except StoreUnavailable as error:
        raise BadConfiguration(f"CHAT_PROXY_STORE_URL: {error}") from None
    lines = [json.dumps(document, indent=2)] if as_json else table(document)
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


async def explain_body(body: bytes, services: Services) -> dict[str, Any]:
    """Return the explanation of a request body."""
    request = read_any_wire(body, services.limits)
    await services.open()
    try:
        route = services.model_routes.of(request.model)
        return await explain_request(request, route, ANONYMOUS, [], services.contracts)
    finally:
        await services.close()


def table(document: dict[str, Any]) -> Iterator[str]:
    """Yield the explanation as the lines of a readable table."""
    yield from head(document)
    yield from outcome(document)
    yield ""
    yield f"{'#':>5} {'turn':>5} {'group':>5}  {'role':<10} {'tokens':>8} {'after':>8}  what"
    for message in document["messages"]:
        turn = "-" if message["turn"] is None else message["turn"]
        role = printable(message["role"])[:10]
        yield (
            f"{message['index']:>5} {turn:>5} {message['group']:>5}  {role:<10} "
            f"{message['tokens']:>8,} {after(message['after']):>8}  {listed(message['by_kind'])}"
        )
    yield from image_lines(document["images"])
    if document["tools"]:
        yield ""
        yield f"{'tool':<40} {'tokens':>8}"
        for tool in document["tools"]:
            yield f"{printable(tool['name'])[:40]:<40} {tool['tokens']:>8,}"


def image_lines(images: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield each image with its size, tokens and family, and what would be done to it."""
    if images:
        yield ""
        yield f"{'#':>5}  {'image':<24} {'size':>11} {'tokens':>8}  {'family':<16} what"
    for image in images:
        left = image["after"]
        smaller = f" to {pixels(left['size'])}, {left['tokens']:,} tokens"
        done = left["change"] + (smaller if left["change"] == "scaled" else "")
        yield (
            f"{image['message']:>5}  {printable(image['mime'])[:24]:<24} "
            f"{pixels(image['size']):>11} {image['tokens']:>8,}  "
            f"{image['family'] or 'unknown':<16} {done}"
        )


def pixels(size: Sequence[int] | None) -> str:
    """Return width and height, `?` if they are unknown."""
    return "?" if size is None else f"{size[0]}x{size[1]}"


def head(document: dict[str, Any]) -> Iterator[str]:
    """Yield the lines about the whole request: model, tokens, window, budget."""
    tokens, window, budget = document["tokens"], document["window"], document["budget"]
    learned = tokens["calibration"]["lessons"]
    digits = " with single digits" if tokens["single_digits"] else ""
    source = f"calibrated by {learned} answers" if learned else "not calibrated yet"
    api = "" if document["wire"] == "chat" else f", by the API {document['wire']}"
    yield f"model   {printable(document['model']) or '(none)'}{api}"
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


def outcome(document: dict[str, Any]) -> Iterator[str]:
    """Yield what would be done to the request, stage by stage."""
    compaction = document["compaction"]
    yield f"mode    {document['mode']}; this request would be sent as: {compaction['outcome']}"
    for stage in compaction["stages"]:
        messages, tokens = stage["messages"], stage["tokens"]
        yield (
            f"stage   {stage['stage']}: {messages[0]} -> {messages[1]} messages, "
            f"{tokens[0]:,} -> {tokens[1]:,} tokens"
        )
    for stage in compaction["failed_stages"]:
        yield f"stage   {stage}: failed and was skipped"
    if compaction["unfit"]:
        yield f"unfit   {compaction['unfit']}"
    if compaction["plan"]:
        yield from plan_lines(compaction["plan"])


def plan_lines(plan: dict[str, Any]) -> Iterator[str]:
    """Yield the plan: its form and sizes, then what is done to each group and why."""
    room = f", {plan['fold_room']:,} for the folded text" if plan["fold_room"] else ""
    yield (
        f"plan    {plan['form']}: about {plan['tokens']:,} tokens{room}; target "
        f"{plan['target']:,}, limit {plan['limit']:,}, grows by {plan['pace']:,} per request"
    )
    if plan["is_waiting"]:
        yield "        the request fits: it is sent as it is until a summary is ready"
    for (treatment, reason), groups in groupby(
        plan["groups"], lambda group: (group["treatment"], group["reason"])
    ):
        run = list(groups)
        first, last = run[0]["start"], run[-1]["end"] - 1
        messages = f"#{first}" if first == last else f"#{first}-{last}"
        yield f"        {messages:<12} {treatment:<7} {reason}"


def after(left: Mapping[str, Any]) -> str:
    """Return the tokens left of a message, `=` if it is unchanged, `-` if it is dropped."""
    return {"kept": "=", "dropped": "-"}.get(left["change"], f"{left['tokens']:,}")


def listed(kinds: Mapping[str, int]) -> str:
    """Return the tokens of each kind as one line."""
    return ", ".join(f"{kind} {tokens:,}" for kind, tokens in kinds.items() if tokens)
