"""All settings, with their environment variables.

The variable of a setting is `CHAT_PROXY_` + section + `_` + field: `CHAT_PROXY_SERVER_PORT`.
"""

from typing import Annotated, Literal

from pydantic_settings import BaseSettings, SettingsConfigDict

from chat_proxy.config.compaction_sections import (
    BudgetSettings,
    CommandsSettings,
    HistorySettings,
    MediaSettings,
    PruneSettings,
    RecallSettings,
    ReplaySettings,
    SummarySettings,
    TokensSettings,
    ToolsSettings,
    VisionSettings,
)
from chat_proxy.config.server_sections import (
    ArchiveSettings,
    AuthSettings,
    DashboardSettings,
    LimitsSettings,
    LogSettings,
    MetricsSettings,
    RegistrySettings,
    ServerSettings,
    StoreSettings,
    UpstreamSettings,
)
from chat_proxy.config.value_types import InAnyCase

PREFIX = "CHAT_PROXY_"


class Settings(BaseSettings):
    """The complete configuration, read once at startup."""

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
    """`on`: compact conversations; `observe`: only report what would change; `off`: do nothing."""
    contracts: Annotated[Literal["auto", "proxy", "upstream"], InAnyCase] = "auto"
    """Who does what a request asks of the server by `context_management`, `compaction_trigger` and
    the like: `proxy`, `upstream` (the parameters pass unchanged, and the proxy does not compact
    these requests), or `auto`: the upstream if it is a hosted API that is known to, else the proxy.
    """

    server: ServerSettings = ServerSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    auth: AuthSettings = AuthSettings()
    registry: RegistrySettings = RegistrySettings()
    vision: VisionSettings = VisionSettings()
    media: MediaSettings = MediaSettings()
    tools: ToolsSettings = ToolsSettings()
    prune: PruneSettings = PruneSettings()
    budget: BudgetSettings = BudgetSettings()
    history: HistorySettings = HistorySettings()
    summary: SummarySettings = SummarySettings()
    recall: RecallSettings = RecallSettings()
    replay: ReplaySettings = ReplaySettings()
    tokens: TokensSettings = TokensSettings()
    store: StoreSettings = StoreSettings()
    archive: ArchiveSettings = ArchiveSettings()
    commands: CommandsSettings = CommandsSettings()
    limits: LimitsSettings = LimitsSettings()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()
    dashboard: DashboardSettings = DashboardSettings()
