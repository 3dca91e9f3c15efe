"""The settings of the server: listening, upstream, access, storage, limits, reporting."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from chat_proxy.config.value_types import (
    BaseUrl,
    Count,
    InAnyCase,
    Key,
    Keys,
    Origins,
    Pause,
    Port,
    Positive,
    Processes,
    Seconds,
    Section,
)


class ServerSettings(Section):
    """Where the proxy listens and how it shuts down."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address to listen on; `0.0.0.0` listens on all IPv4 addresses."""
    port: Port = 8100
    """Port to listen on; 0 selects a free port."""
    workers: Processes = 1
    """Number of processes that share the port, at most 256."""
    keep_alive_seconds: Seconds = 65
    """How long an idle client connection stays open."""
    drain_seconds: Seconds = 120
    """After SIGTERM, how long running answers may take before they end with an error."""
    drain_grace_seconds: Pause = 3
    """After SIGTERM, how long new requests are accepted while load balancers react."""
    ping_seconds: Pause = 15
    """Interval of `: ping` while the upstream sends nothing after its headers; 0 disables it."""
    cors_origins: Origins = ()
    """Exact origins of web pages that may call `/v1` and read its answers; empty: none."""
    docs_enabled: bool = False
    """Serve the OpenAPI page of the health endpoints at `/docs`; it loads scripts from a CDN."""


class UpstreamSettings(Section):
    """The OpenAI-compatible server that receives the requests."""

    base_url: BaseUrl = "http://127.0.0.1:8000/v1"
    """Base URL of the upstream, with `/v1`; the registry file can set another for each model."""
    api_key: Key | None = None
    """API key sent to the upstream instead of the client's credentials."""
    ca_file: Path | None = None
    """PEM file of the certificate authorities to trust; unset: those of the system."""
    connect_timeout_seconds: Seconds = 5
    """Time limit for name resolution, connection and TLS handshake together."""
    first_byte_timeout_seconds: Seconds = 300
    """Time limit until the answer begins."""
    idle_timeout_seconds: Seconds = 120
    """Longest pause within an answer."""
    total_timeout_seconds: Seconds = 3600
    """Time limit for a whole answer."""
    keep_alive_seconds: Seconds = 2.5
    """How long an idle upstream connection is kept; shorter than vLLM's 5 seconds."""
    discovery_seconds: Seconds = 300
    """How often the context windows of the models are read from `/v1/models`."""
    breaker_failures: Count = 5
    """Consecutive connection failures after which requests fail immediately; 0 disables it."""
    breaker_seconds: Seconds = 30
    """How long they fail immediately; doubled by each further failure, up to 300 seconds."""


class AuthSettings(Section):
    """Who may use the proxy."""

    keys: Keys = ()
    """Comma-separated keys; clients must send one. Empty: their key goes to the upstream."""
    admin_key: Key | None = None
    """Key for `/metrics`, `/dashboard` and explain records; unset: they need no key."""
    allow_anonymous: bool = False
    """Start even if anyone who can reach the port can use the upstream key."""


class RegistrySettings(Section):
    """What the proxy knows about models."""

    file: Path = Path("configs/model_registry.json")
    """Path of the model registry; a missing file is an empty registry."""


class StoreSettings(Section):
    """Where summaries and offloaded texts are stored."""

    url: str = "sqlite:///data/chat-proxy.db"
    """`sqlite:///path`, `memory:` or `redis://host:port/db` (`rediss`, `+cluster`, `+sentinel`).

    Unset: `data` is the user's data folder, `$XDG_DATA_HOME/chat-proxy` or
    `~/.local/share/chat-proxy`, unless there are data in `data` of the working directory.
    """
    secret: Key | None = None
    """Secret for all storage keys; unset: generated beside the SQLite file. Redis requires it."""
    required: bool = False
    """Refuse to start if the store cannot be opened."""
    max_bytes: Positive = 1024 * 1024 * 1024
    """Maximum size of the SQLite file; the oldest data of the largest tenant are deleted first."""
    tenant_max_bytes: Positive = 256 * 1024 * 1024
    """Maximum size of one tenant's data in the SQLite file; its oldest are deleted first."""


class ArchiveSettings(Section):
    """Where the originals of compacted messages are kept."""

    enabled: bool = True
    """Keep the originals; `false`: nowhere, and prompts name no place."""
    files: bool = True
    """Write the originals as files too; `false`: only the store has them."""
    dir: Path = Path("data")
    """Folder that contains `dialog/` and `tool_result/`; unset: as for `CHAT_PROXY_STORE_URL`."""
    retention_days: Positive = 5
    """Number of days after which originals are deleted."""
    max_bytes: Positive = 1024 * 1024 * 1024
    """Maximum size of all files; the oldest of the largest tenant are deleted first."""
    tenant_max_bytes: Positive = 256 * 1024 * 1024
    """Maximum size of the files of one tenant; its oldest are deleted first."""
    mention_paths: bool = False
    """Mention the files in the prompt, for agents that can read them."""


class LimitsSettings(Section):
    """Limits for requests and answers; the proxy refuses what exceeds them."""

    max_body_bytes: Positive = 32 * 1024 * 1024
    """Maximum size of a request body."""
    max_depth: Positive = 64
    """Maximum nesting depth of the request's JSON."""
    max_elements: Positive = 500_000
    """Maximum number of objects, lists and commas in the request's JSON."""
    max_messages: Positive = 10_000
    """Maximum number of messages in a request."""
    max_choices: Positive = 16
    """Maximum value of the request's `n`."""
    max_inflight_bytes: Positive = 512 * 1024 * 1024
    """Memory for all requests at the same time: bodies and what they become when parsed."""
    header_seconds: Seconds = 10
    """Time limit for receiving the headers of a request."""
    body_seconds: Seconds = 30
    """Time limit for receiving the body of a request, plus one second for each MiB."""
    max_header_bytes: Positive = 64 * 1024
    """Maximum size of all headers of a request."""
    max_header_line_bytes: Positive = 16 * 1024
    """Maximum size of one header or of the request line."""
    max_headers: Positive = 100
    """Maximum number of headers in a request."""
    client_stall_seconds: Seconds = 60
    """How long a client may stop reading its answer."""
    max_answer_bytes: Positive = 64 * 1024 * 1024
    """Maximum size of an answer that is not streamed."""
    tenant_in_flight: Count = 0
    """Concurrent requests of one tenant in each process, others get 429; 0 means no limit."""


class LogSettings(Section):
    """What is written to stderr."""

    level: Annotated[Literal["debug", "info", "warning", "error"], InAnyCase] = "info"
    """Lowest level that is logged: `debug`, `info`, `warning` or `error`."""
    format: Annotated[Literal["auto", "json", "text"], InAnyCase] = "auto"
    """`json` lines, readable `text`, or `auto`: text on a terminal and JSON otherwise."""
    client_address: bool = False
    """Log the address that each request comes from; it may be personal data."""


class MetricsSettings(Section):
    """Metrics for Prometheus."""

    enabled: bool = True
    """Serve `/metrics`."""


class DashboardSettings(Section):
    """The web page for operators."""

    enabled: bool = True
    """Serve `/dashboard`."""
    show_text: bool = False
    """Show the text of conversations on the dashboard."""
