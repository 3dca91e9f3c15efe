"""What a start tells people: address, upstream, models, where data lie, who may come in.

A thread asks the upstream and then writes, so that a start neither waits for it nor fails by it.
"""

import asyncio
import logging
import os
import sys
import textwrap
import threading
from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from chat_proxy import __version__
from chat_proxy.cli.check_config import UpstreamAnswer, answer_of, upstream_routes
from chat_proxy.config.data_folder import working_directory_notice
from chat_proxy.config.environment import shown
from chat_proxy.config.settings import Settings
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.sizing.context_window import find_window
from chat_proxy.store.factory import MEMORY, SQLITE
from chat_proxy.telemetry.logs import INFO, WARNING, log, log_exception
from chat_proxy.telemetry.printable import printable, writes_text

SENTENCE = "chat-proxy starts"
ANSWER_SECONDS = 2.0
MOST_MODELS = 8
INDENT = 13

Banner = dict[str, object]


def announce(settings: Settings, services: Services, address: str) -> threading.Thread:
    """Ask the upstreams in a thread, and write the banner when they have answered or time is up.

    The services are used for that alone: those that serve requests have another event loop.
    """

    def run() -> None:
        try:
            # Not uvloop's: its loops must not outlive the interpreter, and this thread may.
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                answers = runner.run(ask_upstreams(services))
            write_banner(settings, banner_of(settings, services, answers, address), answers)
        except Exception as error:  # noqa: BLE001 - the proxy serves, whatever the banner does
            log_exception("the start could not be described", error)

    thread = threading.Thread(target=run, name="banner", daemon=True)
    thread.start()
    return thread


async def ask_upstreams(services: Services) -> list[UpstreamAnswer]:
    """Ask all upstreams at once; give up after ANSWER_SECONDS."""
    upstream = services.forwarding.upstream
    upstream.open()
    try:
        routes = upstream_routes(services)
        asked = (answer_of(services.windows, route, ANSWER_SECONDS) for route in routes)
        return await asyncio.gather(*asked)
    finally:
        await upstream.close()


def banner_of(
    settings: Settings, services: Services, answers: list[UpstreamAnswer], address: str
) -> Banner:
    """Return what is told, by name."""
    banner: Banner = {
        "version": __version__,
        "address": f"{address}/v1",
        "mode": settings.mode,
        "upstreams": {answer.base_url: answer.said for answer in answers},
        "models": models_of(services, answers),
        "store": store_of(settings),
        "archive": archive_of(settings),
        "clients": identity_of(settings),
        "dashboard": dashboard_of(settings, address),
    }
    if traces := services.tracing.options.problem or services.tracing.options.endpoint:
        banner["traces"] = traces
    notice = working_directory_notice(settings)
    return {**banner, "notice": notice} if notice else banner


def models_of(services: Services, answers: list[UpstreamAnswer]) -> dict[str, str | int | None]:
    """Return the windows of the first models that the registry and the upstreams name."""
    reported = {name: it for answer in answers for name, it in answer.windows.items()}
    names = list(dict.fromkeys([*(card.name for card in services.registry.cards), *reported]))
    told: dict[str, str | int | None]
    told = {name: window_of(services, name, reported.get(name)) for name in names[:MOST_MODELS]}
    left_out = len(names) - len(told)
    return {**told, "others": f"{left_out} more"} if left_out else told


def window_of(services: Services, name: str, reported: int | None) -> int | None:
    """Return the window of a model before anything was learned about it."""
    route = services.model_routes.of(name)
    window = find_window(
        name,
        setting=route.policy.context_window,
        registry=route.card.context_window,
        discovered=reported,
    )
    return window.tokens if window else None


def store_of(settings: Settings) -> str:
    """Return where summaries are stored, without a password."""
    url = settings.store.url
    if url == MEMORY:
        return "in memory; nothing is left after a stop"
    if url.startswith(SQLITE):
        return f"{url.removeprefix(SQLITE)}, not encrypted"
    return shown("CHAT_PROXY_STORE_URL", url)


def archive_of(settings: Settings) -> str:
    """Return where the originals of compacted messages are kept, and how long."""
    archive = settings.archive
    if not archive.enabled:
        return "off: originals of compacted messages are not kept"
    days = f"{archive.retention_days} days" if archive.retention_days > 1 else "1 day"
    if not archive.files:
        return f"only in the store, as plain text, for {days}"
    return f"{archive.dir}, originals of compacted messages as plain text, for {days}"


def identity_of(settings: Settings) -> str:
    """Return who may use the proxy."""
    if settings.auth.keys:
        count = len(settings.auth.keys)
        what = "the key" if count == 1 else f"one of {count} keys"
        return f"must send {what} (CHAT_PROXY_AUTH_KEYS)"
    if settings.upstream.api_key:
        return "need no key; the upstream gets CHAT_PROXY_UPSTREAM_API_KEY"
    return "send their own key, which the upstream gets"


def dashboard_of(settings: Settings, address: str) -> str:
    """Return the dashboard's URL as a browser on this machine opens it."""
    if not settings.dashboard.enabled:
        return "off"
    url = urlsplit(address)
    host = ip_address(url.hostname or "")
    if host.is_unspecified:
        address = f"http://{'127.0.0.1' if host.version == 4 else '[::1]'}:{url.port}"
    key = ", with CHAT_PROXY_AUTH_ADMIN_KEY" if settings.auth.admin_key else ""
    return f"{address}/dashboard{key}"


def write_banner(settings: Settings, banner: Banner, answers: list[UpstreamAnswer]) -> None:
    """Write the banner as a block on a terminal, as one line otherwise.

    It is a warning if an upstream does not answer.
    """
    level = INFO if all(answer.answers for answer in answers) else WARNING
    if not writes_text(settings.log.format, sys.stderr):
        log(SENTENCE, level, **banner)
    elif level >= logging.getLevelNamesMapping()[settings.log.level.upper()]:
        sys.stderr.write("\n".join(text_of(banner, terminal_width())) + "\n")
        sys.stderr.flush()


def terminal_width() -> int:
    """Return the columns of the terminal, a very large number where there is none."""
    return os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else sys.maxsize


def text_of(banner: Banner, width: int = sys.maxsize) -> Iterator[str]:
    """Yield the lines of the block; long ones go on below, without a broken word."""
    yield f"chat-proxy {banner['version']} at {banner['address']}"
    for name, value in banner.items():
        if name not in ("version", "address"):
            for line in lines_of(value):
                yield from textwrap.wrap(
                    printable(line),
                    width,
                    initial_indent=f"  {name:10} ",
                    subsequent_indent=" " * INDENT,
                    break_long_words=False,
                    break_on_hyphens=False,
                )


def lines_of(value: object) -> list[str]:
    """Return a value as lines, one for each upstream or model."""
    if not isinstance(value, dict):
        return [str(value)]
    return [f"{name}: {worded(it)}" for name, it in value.items()] or ["none known"]


def worded(value: str | int | None) -> str:
    """Return what is known about an upstream or a model."""
    if value is None:
        return "window unknown"
    return value if isinstance(value, str) else f"{value:,} tokens"
