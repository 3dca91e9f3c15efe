"""`chat-proxy serve`: bind the port, then run the app in this process or in workers."""

import errno
import gc
import os
import socket
import sys
import tempfile
from argparse import Namespace
from collections.abc import Mapping
from functools import partial

import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead

from chat_proxy.cli.terminal.flags import sources_of
from chat_proxy.cli.terminal.start_banner import announce
from chat_proxy.config.environment import read_settings, read_variables, wants_colours
from chat_proxy.config.settings import Settings
from chat_proxy.errors import BadConfiguration
from chat_proxy.http.process.connection_limit import (
    LimitedProtocol,
    most_connections,
    take_more_descriptors,
)
from chat_proxy.http.process.shutdown import DrainPolicy, GracefulServer, address_of
from chat_proxy.http.process.workers import CANNOT_START, Workers
from chat_proxy.http.server.limits import ConnectionLimits
from chat_proxy.proxy.services import Services
from chat_proxy.routes.front.server_hooks import server_hooks
from chat_proxy.server import create_app
from chat_proxy.telemetry.logs import ERROR, configure_logging, log
from chat_proxy.telemetry.metrics import note_worker_deaths
from chat_proxy.wiring import make_services, refuse_to_expose_keys

BACKLOG = 2048
SWITCH_SECONDS = 0.0005
"""Python's own is ten times as long; a fifth of this costs CPU and waits longer again."""
METRICS_DIR = "PROMETHEUS_MULTIPROC_DIR"
PORT_ERRORS = (errno.EADDRINUSE, errno.EACCES)


def run(options: Namespace) -> int:
    """Run the command."""
    env_file, flags = sources_of(options)
    return serve(read_settings(env_file, flags), read_variables(env_file))


def serve(
    settings: Settings,
    variables: Mapping[str, str],
    listener: socket.socket | None = None,
    *,
    is_announced: bool = True,
) -> int:
    """Serve until a signal comes; return the exit code."""
    services = make_services(settings, variables)
    refuse_to_expose_keys(settings, services)
    with listener or listen(settings.server.host, settings.server.port) as port:
        configure_logging(settings.log.level, settings.log.format)
        if is_announced:
            announce(settings, services, address_of([port]))
        if settings.server.workers > 1:
            return serve_by_workers(settings, dict(variables), port)
        run_server(settings, dict(variables), port)
    return 0


def serve_by_workers(settings: Settings, variables: dict[str, str], listener: socket.socket) -> int:
    """Run a server in each of several processes; return the exit code."""
    with tempfile.TemporaryDirectory(prefix="chat-proxy-metrics-") as metrics_dir:
        # prometheus_client reads this once, when a worker imports it.
        os.environ[METRICS_DIR] = metrics_dir  # noqa: TID251 - written, not read
        args = (settings, variables, listener, metrics_dir)
        workers = Workers(
            settings.server.workers,
            serve_here,
            args,
            on_exit=lambda pid: mark_process_dead(pid, metrics_dir),  # type: ignore[no-untyped-call]
            on_deaths=lambda deaths: note_worker_deaths(metrics_dir, deaths),
        )
        return workers.run()


def serve_here(
    settings: Settings,
    variables: dict[str, str],
    listener: socket.socket,
    metrics_dir: str | None = None,
) -> None:
    """Run one server in a process that has not configured its logs yet."""
    configure_logging(settings.log.level, settings.log.format, colours=wants_colours(variables))
    run_server(settings, variables, listener, metrics_dir)


def run_server(
    settings: Settings,
    variables: dict[str, str],
    listener: socket.socket,
    metrics_dir: str | None = None,
) -> None:
    """Run one server in this process; exit with CANNOT_START if it cannot start."""
    try:
        app = create_app(settings, variables, multiprocess_dir=metrics_dir)
    except BadConfiguration as error:
        log("the configuration cannot be used any more", ERROR, reason=str(error))
        sys.exit(CANNOT_START)
    take_more_descriptors()
    server = server_of(app, settings)
    freeze_garbage_collector()
    shorten_switch_interval()
    server.run(sockets=[listener])


def freeze_garbage_collector() -> None:
    """Exclude objects that live as long as the process from garbage collection.

    Visiting them again and again costs as much as a third of a small request.
    """
    gc.collect()
    gc.freeze()


def shorten_switch_interval() -> None:
    """Let the event loop have the interpreter soon while a thread works on a long conversation.

    It is woken several times for one small chat, and waits up to the interval each time.
    """
    sys.setswitchinterval(SWITCH_SECONDS)


def server_of(app: FastAPI, settings: Settings) -> GracefulServer:
    """Return the server that the settings describe."""
    services: Services = app.state.services
    limits = settings.limits
    config = uvicorn.Config(
        app,
        http=partial(  # type: ignore[arg-type]
            LimitedProtocol,
            most=most_connections(),
            hooks=server_hooks(services.metrics),
            limits=ConnectionLimits(
                limits.header_seconds,
                limits.body_seconds,
                limits.max_header_bytes,
                limits.max_header_line_bytes,
                limits.max_headers,
                limits.client_stall_seconds,
                settings.server.keep_alive_seconds,
            ),
        ),
        loop="uvloop",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
    )
    policy = DrainPolicy(settings.server.drain_grace_seconds, settings.server.drain_seconds)
    return GracefulServer(config, policy, services.drain)


def listen(host: str, port: int) -> socket.socket:
    """Bind the port, or raise BadConfiguration with the reason why that is not possible."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = (getattr(error, "strerror", None) or "not an address").partition(" (while")[0]
        at_fault = (
            f"PORT={port}" if getattr(error, "errno", None) in PORT_ERRORS else f"HOST={host}"
        )
        is_taken = getattr(error, "errno", None) == errno.EADDRINUSE
        advice = "; stop what uses it, or choose another by --port" if is_taken else ""
        raise BadConfiguration(
            f"CHAT_PROXY_SERVER_{at_fault}: cannot listen on {host}: {reason}{advice}"
        ) from None
