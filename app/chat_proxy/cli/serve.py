"""Serving: bind the port, then run the app in this process or in several."""

import errno
import gc
import os
import socket
import sys
import tempfile
from collections.abc import Mapping
from functools import partial

import uvicorn

from chat_proxy.config.environment import BadConfiguration
from chat_proxy.config.settings import Settings
from chat_proxy.http.process.connection_limit import (
    LimitedProtocol,
    most_connections,
    take_more_descriptors,
)
from chat_proxy.http.process.shutdown import DrainPolicy, GracefulServer
from chat_proxy.http.process.workers import CANNOT_START, Workers
from chat_proxy.http.server.limits import ConnectionLimits
from chat_proxy.server import create_app, make_services, refuse_to_give_keys_away
from chat_proxy.telemetry.logs import ERROR, configure_logging, log

BACKLOG = 2048
METRICS_DIR = "PROMETHEUS_MULTIPROC_DIR"
OF_THE_PORT = (errno.EADDRINUSE, errno.EACCES)


def serve(
    settings: Settings, variables: Mapping[str, str], listener: socket.socket | None = None
) -> int:
    """Serve until a signal comes; return the exit code."""
    refuse_to_give_keys_away(settings, make_services(settings, variables))
    with listener or listen(settings.server.host, settings.server.port) as port:
        if settings.server.workers > 1:
            return serve_by_workers(settings, dict(variables), port)
        serve_here(settings, dict(variables), port)
    return 0


def serve_by_workers(settings: Settings, variables: dict[str, str], listener: socket.socket) -> int:
    """Run a server in each of several processes; return the exit code."""
    configure_logging(settings.log.level, settings.log.format)
    with tempfile.TemporaryDirectory(prefix="chat-proxy-metrics-") as metrics_dir:
        # prometheus_client reads this once, when a worker imports it.
        os.environ[METRICS_DIR] = metrics_dir  # noqa: TID251 - written, not read
        args = (settings, variables, listener, metrics_dir)
        return Workers(settings.server.workers, serve_here, args, metrics_dir).run()


def serve_here(
    settings: Settings,
    variables: dict[str, str],
    listener: socket.socket,
    metrics_dir: str | None = None,
) -> None:
    """Run one server in this process; without one, leave with CANNOT_START, as uvicorn does."""
    configure_logging(settings.log.level, settings.log.format)
    try:
        app = create_app(settings, variables, multiprocess_dir=metrics_dir)
    except BadConfiguration as error:
        log("the configuration cannot be used any more", ERROR, reason=str(error))
        sys.exit(CANNOT_START)
    take_more_descriptors()
    server = server_of(app, settings)
    spare_the_collector()
    server.run(sockets=[listener])


def spare_the_collector() -> None:
    """Take what lives as long as the process out of garbage collection.

    Walking through it again and again costs as much as a third of a small request.
    """
    gc.collect()
    gc.freeze()


def server_of(app: object, settings: Settings) -> GracefulServer:
    """Return the server that the settings describe."""
    limits = settings.limits
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=partial(  # type: ignore[arg-type]
            LimitedProtocol,
            most=most_connections(),
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
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
    )
    policy = DrainPolicy(settings.server.drain_grace_seconds, settings.server.drain_seconds)
    return GracefulServer(config, policy)


def listen(host: str, port: int) -> socket.socket:
    """Bind the port, or raise BadConfiguration saying why it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = (getattr(error, "strerror", None) or "not an address").partition(" (while")[0]
        at_fault = (
            f"PORT={port}" if getattr(error, "errno", None) in OF_THE_PORT else f"HOST={host}"
        )
        raise BadConfiguration(
            f"CHAT_PROXY_SERVER_{at_fault}: cannot listen on {host}: {reason}"
        ) from None
