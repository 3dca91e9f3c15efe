"""`chat-proxy compact FILE`: fold the older messages of a request body into a summary."""

import asyncio
import sys
from argparse import Namespace
from collections.abc import Mapping

from chat_proxy.cli.terminal.flags import sources_of
from chat_proxy.cli.terminal.progress import progress
from chat_proxy.cli.terminal.read_body import read_body, without_new_store
from chat_proxy.config.environment import read_settings, read_variables
from chat_proxy.config.settings import Settings
from chat_proxy.errors import BadConfiguration, BadRequest
from chat_proxy.proxy.manual.compact import ManualOptions, ManualResult, compact_manually
from chat_proxy.proxy.routing.caller import ANONYMOUS
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.request import CompactionRequest, body_of, counted_request
from chat_proxy.routes.compaction.compact import document_of, refuse_stored_history, required_model
from chat_proxy.routes.read_request import read_any_wire
from chat_proxy.store.base import StoreUnavailable
from chat_proxy.telemetry.logs import configure_logging
from chat_proxy.wiring import make_services


def run(options: Namespace) -> int:
    """Run the command."""
    manual = ManualOptions(options.keep, options.instruction.strip())
    env_file, flags = sources_of(options)
    settings, variables = read_settings(env_file, flags), read_variables(env_file)
    return compact_file(settings, variables, options.file, manual, as_json=options.json)


def compact_file(
    settings: Settings,
    variables: Mapping[str, str],
    name: str,
    options: ManualOptions,
    *,
    as_json: bool,
) -> int:
    """Print a compacted request body; return 1 if there is no summary.

    Raise BadConfiguration if the body cannot be read.
    """
    if options.keep < 1:
        raise BadConfiguration(f"--keep {options.keep}: must be at least 1")
    configure_logging("error", settings.log.format)
    body = read_body(name)
    services = make_services(without_new_store(settings), variables)
    try:
        compaction, done = asyncio.run(compact_body(body, services, options))
    except BadRequest as error:
        raise BadConfiguration(f"{name}: {error.message}") from None
    except StoreUnavailable as error:
        raise BadConfiguration(f"CHAT_PROXY_STORE_URL: {error}") from None
    sys.stderr.write(f"chat-proxy: {result_line(done)}\n")
    if done.has_failed:
        return 1
    printed = document_of(compaction, done) if as_json else body_of(compaction, done.conversation)
    sys.stdout.buffer.write(printed.rstrip() + b"\n")
    return 0


async def compact_body(
    body: bytes, services: Services, options: ManualOptions
) -> tuple[CompactionRequest, ManualResult]:
    """Compact a request body, showing progress on a terminal."""
    request = read_any_wire(body, services.limits)
    required_model(request)
    refuse_stored_history(request)
    await services.open()
    try:
        route = services.model_routes.of(request.model)
        compaction = await counted_request(
            request, route, ANONYMOUS, "compact-file", services.sizing
        )
        with progress(f"compacting {len(compaction.conversation):,} messages"):
            return compaction, await compact_manually(compaction, services.compaction, options)
    finally:
        await services.close()


def result_line(done: ManualResult) -> str:
    """Return the result as one line."""
    if done.has_failed:
        return f"not compacted: {done.note}"
    figures = (
        f"{done.messages_compacted:,} messages compacted, "
        f"{done.tokens_before:,} -> {done.tokens_after:,} tokens"
    )
    return f"{figures}; {done.note}" if done.note else figures
