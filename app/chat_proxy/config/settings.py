"""Every setting, with its default and its documentation; README's table is made from this file.

`CHAT_PROXY_` + section + `_` + field is the environment variable: `CHAT_PROXY_SERVER_PORT`.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    HttpUrl,
    SecretStr,
    TypeAdapter,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PREFIX = "CHAT_PROXY_"

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Pause = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]
Port = Annotated[int, Field(ge=0, le=65535)]
# Each is a whole proxy in memory: more are a slip of the keyboard that would take the machine down.
Processes = Annotated[int, Field(ge=1, le=256)]


def _lowered(value: object) -> object:
    """Read `INFO` as `info`: elsewhere levels are written so."""
    return value.strip().lower() if isinstance(value, str) else value


InAnyCase = BeforeValidator(_lowered)


def _split(value: object) -> object:
    """Read `a,b` as two words, so that nobody has to write JSON into an environment variable."""
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    return value


def _base_url(value: str) -> str:
    """Check the address and complete a bare `http://host:port` with `/v1`, as clients expect."""
    url = TypeAdapter(HttpUrl).validate_python(value)
    if url.username or url.password or url.query or url.fragment:
        raise ValueError("must have no user name, password, query or fragment")
    path = (url.path or "").rstrip("/") or "/v1"
    port = "" if url.port in (None, {"http": 80, "https": 443}[url.scheme]) else f":{url.port}"
    return f"{url.scheme}://{url.host}{port}{path}"


def _fits_a_header(value: SecretStr) -> SecretStr:
    """Refuse a key that cannot be a header value, as one read from a file with its line end."""
    key = value.get_secret_value()
    if not key.isprintable() or not key.isascii() or key != key.strip():
        raise ValueError("must be printable ASCII without line breaks or blanks around it")
    return value


def _split_keys(value: object) -> object:
    """Read keys as words; a value without any would open the door that it was meant to shut."""
    keys = _split(value)
    if isinstance(value, str) and not keys:
        raise ValueError("holds no key")
    return keys


def _json(value: object) -> object:
    """Read JSON here and not in pydantic-settings, whose complaint does not name the variable."""
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            raise ValueError("is not valid JSON") from None
    return value


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
BaseUrl = Annotated[str, AfterValidator(_base_url)]
Key = Annotated[SecretStr, AfterValidator(_fits_a_header)]
Keys = Annotated[tuple[Key, ...], NoDecode, BeforeValidator(_split_keys)]
Fields = Annotated[dict[str, Any], NoDecode, BeforeValidator(_json)]


class Section(BaseModel):
    """One word of the environment's names, with its fields."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True
    )


class ServerSettings(Section):
    """Where the proxy listens and how it stops."""

    host: str = "127.0.0.1"
    """The address to listen on; `0.0.0.0` for all."""
    port: Port = 8100
    """The port to listen on; 0 takes a free one."""
    workers: Processes = 1
    """Processes that share the port, 256 at most."""
    keep_alive_seconds: Seconds = 65
    """How long an idle client connection stays open."""
    drain_seconds: Seconds = 120
    """After SIGTERM, how long running answers may take before they end with an error frame."""
    drain_grace_seconds: Pause = 3
    """After SIGTERM, how long new requests are still taken, so that load balancers notice."""
    ping_seconds: Pause = 15
    """While the upstream is silent after its headers, send `: ping` this often; 0 = never."""
    docs_enabled: bool = False
    """Serve OpenAPI's page of the health endpoints at `/docs`; its scripts come from a CDN."""


class UpstreamSettings(Section):
    """The OpenAI-compatible server behind the proxy."""

    base_url: BaseUrl = "http://127.0.0.1:8000/v1"
    """The upstream's base URL, with `/v1`; models with their own are in the registry file."""
    api_key: Key | None = None
    """Sent upstream instead of what the client sent."""
    ca_file: Path | None = None
    """A PEM file with the certificate authorities to trust instead of the system's."""
    connect_timeout_seconds: Seconds = 5
    """Limit for name resolution, connection and TLS handshake together."""
    first_byte_timeout_seconds: Seconds = 300
    """Limit for the time until the answer begins."""
    idle_timeout_seconds: Seconds = 120
    """Limit for a pause in the middle of an answer."""
    total_timeout_seconds: Seconds = 3600
    """Limit for a whole answer."""
    keep_alive_seconds: Seconds = 2.5
    """How long an idle upstream connection is kept; below vLLM's 5 seconds."""
    discovery_seconds: Seconds = 300
    """How often the models' context windows are read from `/v1/models` again."""
    breaker_failures: Count = 5
    """Connection failures in a row after which requests are refused at once; 0 = never."""
    breaker_seconds: Seconds = 30
    """How long they are refused at first; each further failure doubles it, up to 300."""


class AuthSettings(Section):
    """Who may use the proxy."""

    keys: Keys = ()
    """Keys of which clients must send one; empty: the client's key goes to the upstream."""
    admin_key: Key | None = None
    """The key for `/metrics`, `/dashboard` and explain records; unset: they are open."""
    allow_anonymous: bool = False
    """Start even if anyone who reaches the port may spend the upstream key."""


class RegistrySettings(Section):
    """What is known about models."""

    file: Path = Path("configs/model_registry.json")
    """The model registry; a missing file is an empty registry."""


class VisionSettings(Section):
    """What is kept of a conversation with images."""

    truncate_history: bool = True
    """Drop older turns when a request has an image."""
    keep_system: bool = True
    """Keep system and developer messages then."""
    keep_last_n_turns: Count = 0
    """Turns to keep before the current one."""


class MediaSettings(Section):
    """What media count, and what a model gets that cannot take them."""

    strip: bool = True
    """Replace media by a placeholder for a model that the registry says has no vision."""

    image_token_estimate: Positive = 1600
    """Tokens of an image whose size is unknown."""


class ToolsSettings(Section):
    """How long tool results may be."""

    max_bytes: Positive = 50_000
    """Longer results keep head and tail."""
    old_max_bytes: Positive = 3_000
    """The same for old results, once the conversation is over the trigger."""
    exempt: Words = ()
    """Tools whose results are never cut."""


class PruneSettings(Section):
    """Which old tool results and media are cleared over the trigger."""

    enabled: bool = True
    """Clear old tool results and media."""
    keep_results: Count = 1
    """The newest tool results that stay, whatever their size."""
    keep_user_media: Count = 1
    """The newest media of user messages that stay."""
    keep_tool_media: Count = 1
    """The newest media of tool results that stay."""
    protect_tokens: Count = 40_000
    """The newest tokens of tool output that stay."""
    minimum_tokens: Count = 20_000
    """Clear only if at least this is won."""
    protect_turns: Count = 2
    """The newest turns that stay."""
    protected_tools: Words = ("skill",)
    """Tools whose results always stay."""
    idle_minutes: Pause = 60
    """Clear below the trigger too after this pause; 0 = never."""


class BudgetSettings(Section):
    """When a conversation is too long."""

    context_window: Positive | None = None
    """The window in tokens, instead of the discovered one."""
    threshold: Share = 0.8
    """The share of the usable window from which a request is compacted."""
    prepare: Share = 0.65
    """The share from which a summary is prepared in the background; 1 = never."""
    reserve_tokens: Count | None = None
    """Tokens kept free for the answer, instead of the request's own maximum."""


class SummarySettings(Section):
    """The model that writes summaries."""

    enabled: bool = True
    """Summarise older turns over the trigger."""
    model: str | None = None
    """The summary model; unset: the request's own."""
    base_url: BaseUrl | None = None
    """The summary model's base URL; unset: the request's own upstream."""
    api_key: Key | None = None
    """The summary model's key; unset: the client's authorization, but none at another base URL."""
    timeout_seconds: Seconds = 30
    """Limit for one summary."""
    max_tokens: Positive = 4_096
    """The longest summary."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.2
    """How freely it is written; models that refuse the field are asked again without it."""
    extra_body: Fields = {}
    """Further fields of the summary request, as JSON."""
    prompt_file: Path | None = None
    """A file with an instruction of your own instead of the built-in one."""
    concurrency: Positive = 4
    """Summaries that are written at once; tenants who wait take turns."""
    tenant_tokens_per_hour: Count = 0
    """Tokens an hour for one tenant's summaries in a process, then none; 0 = no limit."""
    wait: Annotated[Literal["trigger", "overflow"], InAnyCase] = "trigger"
    """Wait for a summary from the trigger on, or only when the request would not fit."""
    keep_alive_seconds: Pause = 0
    """How often a waiting stream gets `: compacting`; errors are then events; 0 = never."""


class ReplaySettings(Section):
    """What happens when the upstream says that a prompt is too long."""

    enabled: bool = True
    """Send a shorter form of the request again."""
    clip_output: bool = True
    """Lower the request's own maximum of output tokens where that alone makes it fit."""


class TokensSettings(Section):
    """How tokens are counted."""

    encoding: Literal["o200k_base", "cl100k_base"] = "o200k_base"
    """The encoding for models that name none."""


class StoreSettings(Section):
    """Where summaries and offloaded texts are kept."""

    url: str = "sqlite:///data/chat-proxy.db"
    """`sqlite:///path`, `memory:`, `redis://host:port/db` (`rediss`, `+cluster`, `+sentinel`)."""
    secret: Key | None = None
    """The key of all content addresses; unset: generated beside the SQLite file; Redis needs it."""
    required: bool = False
    """Refuse to start when the store cannot be opened."""
    max_bytes: Positive = 1024 * 1024 * 1024
    """The largest SQLite file; what does not fit is not kept."""


class ArchiveSettings(Section):
    """Where the originals of what was compacted go."""

    enabled: bool = True
    """Keep originals."""
    dir: Path = Path("data")
    """The folder for `dialog/` and `tool_result/`."""
    retention_days: Positive = 5
    """Days after which they are deleted."""
    max_bytes: Positive = 1024 * 1024 * 1024
    """The most that they may take; the oldest give way."""
    mention_paths: bool = False
    """Name the files in the prompt, for agents that can read them."""


class CommandsSettings(Section):
    """Commands in the conversation."""

    enabled: bool = True
    """Answer `/compact` as the last user message."""


class LimitsSettings(Section):
    """What a request and an answer may be; beyond it they are refused."""

    max_body_bytes: Positive = 32 * 1024 * 1024
    """The request body."""
    max_depth: Positive = 64
    """Nesting of the request's JSON."""
    max_elements: Positive = 500_000
    """Objects, lists and separators in the request's JSON."""
    max_messages: Positive = 10_000
    """Messages in a request."""
    max_choices: Positive = 16
    """The request's `n`."""
    max_inflight_bytes: Positive = 512 * 1024 * 1024
    """Bytes of all request bodies held at once."""
    header_seconds: Seconds = 10
    """Until a request's headers are in."""
    body_seconds: Seconds = 30
    """Until its body is in, plus a second for each MiB."""
    max_header_bytes: Positive = 64 * 1024
    """The request's header block."""
    max_header_line_bytes: Positive = 16 * 1024
    """One header, or the request line."""
    max_headers: Positive = 100
    """Header fields of a request."""
    client_stall_seconds: Seconds = 60
    """How long a client may stop reading its answer."""
    max_answer_bytes: Positive = 64 * 1024 * 1024
    """An answer that is not streamed."""
    tenant_in_flight: Count = 0
    """Requests of one tenant that a process answers at once, the rest get 429; 0 = no limit."""


class LogSettings(Section):
    """What is written to stderr."""

    level: Annotated[Literal["debug", "info", "warning", "error"], InAnyCase] = "info"
    """The least important level to write."""
    format: Annotated[Literal["auto", "json", "text"], InAnyCase] = "auto"
    """JSON lines, readable text, or text on a terminal and JSON elsewhere."""


class MetricsSettings(Section):
    """What Prometheus can read."""

    enabled: bool = True
    """Serve `/metrics`."""


class DashboardSettings(Section):
    """The operator's page."""

    enabled: bool = True
    """Serve `/dashboard`."""
    show_text: bool = False
    """Show conversation text there."""


class Settings(BaseSettings):
    """The whole configuration, read once at start."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="_",
        env_nested_max_split=1,
        env_ignore_empty=True,
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
    )

    mode: Annotated[Literal["on", "observe", "off"], InAnyCase] = "on"
    """Compact conversations, only report what would be done, or do nothing."""

    server: ServerSettings = ServerSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    auth: AuthSettings = AuthSettings()
    registry: RegistrySettings = RegistrySettings()
    vision: VisionSettings = VisionSettings()
    media: MediaSettings = MediaSettings()
    tools: ToolsSettings = ToolsSettings()
    prune: PruneSettings = PruneSettings()
    budget: BudgetSettings = BudgetSettings()
    summary: SummarySettings = SummarySettings()
    replay: ReplaySettings = ReplaySettings()
    tokens: TokensSettings = TokensSettings()
    store: StoreSettings = StoreSettings()
    archive: ArchiveSettings = ArchiveSettings()
    commands: CommandsSettings = CommandsSettings()
    limits: LimitsSettings = LimitsSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    dashboard: DashboardSettings = DashboardSettings()
