"""Settings become policies: the values that the parts below work by."""

from pathlib import Path

from pydantic import SecretStr

from chat_proxy.chat.normal_form.volatile_blocks import VolatileBlocks
from chat_proxy.compaction.ageing.policy import AgeingPolicy
from chat_proxy.compaction.budget import BudgetPolicy
from chat_proxy.compaction.recall.policy import RecallPolicy
from chat_proxy.compaction.stages.limit_vision_history import LimitVisionHistoryPolicy
from chat_proxy.compaction.stages.order import StagePolicies
from chat_proxy.compaction.stages.strip_media import StripMediaPolicy
from chat_proxy.compaction.stages.truncate_tool_output import TruncateToolOutputPolicy
from chat_proxy.compaction.summary.prompt import DEFAULT_INSTRUCTION
from chat_proxy.config.compaction_sections import BudgetSettings
from chat_proxy.config.environment import overridden
from chat_proxy.config.settings import Settings
from chat_proxy.errors import BadConfiguration
from chat_proxy.proxy.routing.model_policy import ModelPolicies, ModelPolicy
from chat_proxy.proxy.routing.request_policy import RequestPolicy
from chat_proxy.proxy.routing.summary_policy import SummaryPolicy
from chat_proxy.registry.registry import ModelRegistry


def model_policies(settings: Settings, registry: ModelRegistry) -> ModelPolicies:
    """Return every model's policy: the common settings, or those its card overrides."""
    own = {
        card.name: model_policy(overridden(settings, card.overrides))
        for card in registry.cards
        if card.overrides
    }
    return ModelPolicies(model_policy(settings), own)


def model_policy(settings: Settings) -> ModelPolicy:
    """Return what the settings say about a model."""
    budget = settings.budget
    return ModelPolicy(
        settings.mode,
        budget.context_window,
        budget_policy(budget),
        settings.tokens.encoding,
        settings.media.image_token_estimate,
        stage_policies(settings),
        ageing_policy(settings),
        settings.prune.idle_minutes * 60 if settings.prune.enabled else 0,
        summary_policy(settings),
        settings.replay.enabled,
        settings.replay.clip_output,
        VolatileBlocks(settings.history.volatile_tags),
        settings.vision.max_pixels,
        settings.vision.notes == "model",
        recall_policy(settings),
        settings.contracts,
    )


def recall_policy(settings: Settings) -> RecallPolicy:
    """Return what the settings say about recall."""
    recall = settings.recall
    return RecallPolicy(recall.enabled, recall.max_rounds, recall.max_tokens, recall.without_tools)


def summary_policy(settings: Settings) -> SummaryPolicy:
    """Return what the settings say about summaries, or raise BadConfiguration."""
    summary = settings.summary
    return SummaryPolicy(
        summary.enabled,
        summary.model,
        summary.base_url,
        plain_or_none(summary.api_key),
        summary.timeout_seconds,
        summary.wait == "trigger",
        summary.keep_alive_seconds,
        summary.max_tokens,
        summary.temperature,
        summary.extra_body,
        summary_instruction(summary.prompt_file),
    )


def summary_instruction(path: Path | None) -> str:
    """Return the instruction for summaries: the operator's own, or the built-in one."""
    if path is None:
        return DEFAULT_INSTRUCTION
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8"
        raise BadConfiguration(f"CHAT_PROXY_SUMMARY_PROMPT_FILE={str(path)!r}: {reason}") from None
    if not text:
        raise BadConfiguration(f"CHAT_PROXY_SUMMARY_PROMPT_FILE={str(path)!r}: is empty")
    return text


def stage_policies(settings: Settings) -> StagePolicies:
    """Return what the settings say about each stage."""
    vision, tools = settings.vision, settings.tools
    return StagePolicies(
        LimitVisionHistoryPolicy(
            vision.truncate_history,
            vision.keep_system,
            vision.keep_last_n_turns,
            vision.follow_ups == "truncate",
        ),
        StripMediaPolicy(settings.media.strip),
        TruncateToolOutputPolicy(
            enabled=True,
            max_bytes=tools.max_bytes,
            exempt_tools=frozenset(tools.exempt),
            recent_results=tools.recent_n,
            old_max_bytes=tools.old_max_bytes,
            rules=tuple(tools.rules.items()),
        ),
    )


def ageing_policy(settings: Settings) -> AgeingPolicy:
    """Return what the settings say about the ageing of tool results and media."""
    prune = settings.prune
    return AgeingPolicy(
        enabled=prune.enabled,
        protect_tokens=prune.protect_tokens,
        minimum_tokens=prune.minimum_tokens,
        protect_turns=prune.protect_turns,
        protected_tools=frozenset(prune.protected_tools),
        keep_results=prune.keep_results,
        keep_user_media=prune.keep_user_media,
        keep_tool_media=prune.keep_tool_media,
        keep_images=settings.vision.keep_last_images,
        old_max_bytes=settings.tools.old_max_bytes,
        exempt_tools=frozenset(settings.tools.exempt),
        is_protect_literal="protect_tokens" in prune.model_fields_set,
        is_minimum_literal="minimum_tokens" in prune.model_fields_set,
    )


def budget_policy(budget: BudgetSettings) -> BudgetPolicy:
    """Return what the settings say about the budget."""
    return BudgetPolicy(
        budget.threshold,
        budget.prepare,
        budget.reserve_tokens,
        budget.reserve_ratio,
        budget.tail_turns,
        budget.tail_tokens,
        budget.min_answer_tokens,
    )


def request_policy(settings: Settings) -> RequestPolicy:
    """Return an exchange's limits."""
    return RequestPolicy(
        mode=settings.mode,
        max_body_bytes=settings.limits.max_body_bytes,
        max_answer_bytes=settings.limits.max_answer_bytes,
        first_byte_seconds=settings.upstream.first_byte_timeout_seconds,
        idle_seconds=settings.upstream.idle_timeout_seconds,
        total_seconds=settings.upstream.total_timeout_seconds,
        client_stall_seconds=settings.limits.client_stall_seconds,
        ping_seconds=settings.server.ping_seconds,
        answers_commands=settings.commands.enabled,
        logs_addresses=settings.log.client_address,
    )


def plain(secret: SecretStr) -> str:
    """Return the secret itself."""
    return secret.get_secret_value()


def plain_or_none(secret: SecretStr | None) -> str | None:
    """Return the secret itself, if there is one."""
    return plain(secret) if secret else None
