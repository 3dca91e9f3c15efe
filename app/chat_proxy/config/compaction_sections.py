"""The settings of compaction: media, tool results, budget, summaries, replay."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from chat_proxy.config.value_types import (
    BaseUrl,
    Count,
    Fields,
    InAnyCase,
    Key,
    Pause,
    Positive,
    Ratio,
    Seconds,
    Section,
    Share,
    TagNames,
    ToolRules,
    Words,
)


class VisionSettings(Section):
    """What is kept of a conversation with images."""

    truncate_history: bool = True
    """Drop older turns if the user brings an image in the current turn."""
    keep_system: bool = True
    """When dropping turns, keep system and developer messages."""
    keep_last_n_turns: Count = 0
    """When dropping turns, how many to keep before the current one."""
    follow_ups: Annotated[Literal["keep", "truncate"], InAnyCase] = "keep"
    """What happens if there are images, but none from the user in the current turn. `keep`: all
    text stays, and older images give way only if the window needs it; `truncate`: an image anywhere
    in the request drops older turns."""
    keep_last_images: Count = 1
    """How many of the newest images stay when older ones give way."""
    max_pixels: Count = 0
    """Scale every inline image with more pixels down to so many, whatever the window; 0: only if
    the window needs it. Needs Pillow (the extra `images`, in the container image by default)."""
    notes: Annotated[Literal["answer", "model"], InAnyCase] = "answer"
    """What the note of an image that leaves the prompt says. `answer`: the first sentences of the
    answer that followed it. `model`: two sentences of the request's own model, asked in the
    background, once for each image and tenant, when the conversation nears its window."""


class MediaSettings(Section):
    """How media are counted, and what happens to media that a model cannot read."""

    strip: bool = True
    """Replace media by placeholders for models that have no vision according to the registry."""
    image_token_estimate: Positive = 1600
    """Number of tokens counted for an image of unknown size."""


class ToolsSettings(Section):
    """How long tool results may be."""

    max_bytes: Positive = 50_000
    """Maximum size of a tool result; of a longer one only the beginning and the end are kept."""
    old_max_bytes: Positive = 3_000
    """The same limit for old tool results: those that `TOOLS_RECENT_N` or a rule makes old, and
    those of a conversation that is over the trigger."""
    recent_n: Count = 0
    """How many of the newest tool results may have `TOOLS_MAX_BYTES`; older ones are cut to
    `TOOLS_OLD_MAX_BYTES` on every request. 0: all results may have `TOOLS_MAX_BYTES`. With another
    number each new result makes one more old, which changes the prompt far from its end, and the
    upstream's prompt cache is lost from there on."""
    exempt: Words = ()
    """Comma-separated tools whose results are never changed here: neither truncated nor stripped of
    base64."""
    rules: ToolRules = {}  # noqa: RUF012 - pydantic copies mutable defaults
    """Rules for single tools, as a JSON object: the key is a tool's name or a pattern with `*`.
    `"whole"`: never cut. `"recent"`: whole while among the newest `TOOLS_RECENT_N` results (at
    least 1), cut to `TOOLS_OLD_MAX_BYTES` afterwards. A number: cut to so many bytes at once. A
    name has priority over a pattern, and an earlier pattern over a later one. Empty: no rules."""


class PruneSettings(Section):
    """Which old tool results and media may age when a conversation is over the trigger."""

    enabled: bool = True
    """Let old tool results and media age; off: they are only folded, or shortened to fit at all."""
    keep_results: Count = 1
    """How many of the newest tool results stay whole; those of the newest two steps always do."""
    keep_user_media: Count = 1
    """How many of the newest media in user messages are kept."""
    keep_tool_media: Count = 1
    """How many of the newest media in tool results are kept."""
    protect_tokens: Count = 40_000
    """How many tokens of the newest tool results stay whole. A value that you set is taken
    literally; unset: 40,000, but at most a quarter of the window."""
    minimum_tokens: Count = 20_000
    """Let results age without a fold only if this saves so many tokens. A value that you set is
    taken literally, for folds too; unset: 20,000, but at most an eighth of the window."""
    protect_turns: Count = 2
    """How many of the newest turns keep their tool results."""
    protected_tools: Words = ("skill",)
    """Comma-separated tools whose results do not age."""
    idle_minutes: Pause = 60
    """After a pause of this length, results age even below the trigger; 0 disables it."""


class BudgetSettings(Section):
    """When a conversation is too long."""

    context_window: Positive | None = None
    """Context window in tokens; unset: the discovered one."""
    threshold: Share = 0.8
    """Share of the usable window at which a request is compacted (the trigger)."""
    prepare: Share = 0.65
    """Earliest share of the usable window at which a summary is prepared; 1 disables it."""
    reserve_tokens: Count | None = None
    """Tokens reserved for the answer, taken literally (0 too); unset: `BUDGET_RESERVE_RATIO`."""
    reserve_ratio: Ratio | None = None
    """Share of the window reserved for the answer, taken literally (0 too), if
    `BUDGET_RESERVE_TOKENS` is unset. Unset: the request's maximum of output tokens, else the
    model's, else an eighth of the window (20,000 tokens at most); never over a quarter."""
    tail_turns: Count | None = None
    """How many of the newest turns a summary leaves unchanged; unset: as many as there is room
    for."""
    tail_tokens: Count | None = None
    """A summary leaves at most so many tokens of the newest messages unchanged; unset: as many as
    there is room for."""
    min_answer_tokens: Positive = 256
    """The shortest answer, in tokens, that must fit beside the prompt."""


class HistorySettings(Section):
    """How a conversation is recognised when a client sends it again."""

    volatile_tags: TagNames = (
        "environment_details",
        "environment_context",
        "system-reminder",
        "git_status",
        "env",
        "context",
    )
    """Comma-separated names of tags: blocks like `<env>…</env>` in user messages, which clients
    change or take out later, do not make it another conversation."""


class SummarySettings(Section):
    """How summaries are written, and by which model."""

    enabled: bool = True
    """Summarise older turns when a conversation is over the trigger."""
    model: str | None = None
    """Model that writes summaries; unset: the model of the request."""
    base_url: BaseUrl | None = None
    """Base URL of the summary model; unset: the upstream of the request."""
    api_key: Key | None = None
    """Key of the summary model; unset: the client's, or none if the base URL is different."""
    timeout_seconds: Seconds = 30
    """Time limit for one summary."""
    max_tokens: Positive = 4_096
    """Maximum length of a summary in tokens."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.2
    """Sampling temperature; if a model refuses the field, the request is repeated without it."""
    extra_body: Annotated[Fields, Field(repr=False)] = {}  # noqa: RUF012 - pydantic copies it
    """Additional fields of the summary request, as a JSON object."""
    prompt_file: Path | None = None
    """File with an instruction that replaces the built-in one."""
    concurrency: Positive = 4
    """How many summaries are written at once; waiting tenants are served in rotation."""
    tenant_tokens_per_hour: Count = 0
    """Hourly limit of tokens for one tenant's summaries in each process; 0 means no limit."""
    max_per_request: Share = 0.25
    """If more summaries than this are started per request of a tenant and model, over the last
    forty near the window, they are not found again: folds are then made without a model until
    earlier decisions are found again. 1 disables it."""
    wait: Annotated[Literal["trigger", "overflow"], InAnyCase] = "overflow"
    """`overflow`: wait for a summary only if the prompt does not fit; `trigger`: from the trigger
    on."""
    keep_alive_seconds: Pause = 5
    """Interval of `: compacting` in a stream that waits; later errors are events; 0: none."""


class ReplaySettings(Section):
    """What happens when the upstream reports that a prompt is too long."""

    enabled: bool = True
    """Send the request again in a shorter form."""
    clip_output: bool = True
    """Lower the request's maximum of output tokens if that is enough to make it fit."""


class TokensSettings(Section):
    """How tokens are counted."""

    encoding: Literal["o200k_base", "cl100k_base"] = "o200k_base"
    """Encoding for models that specify none."""
    ask_engine: bool = True
    """Ask vLLM and llama.cpp how they tokenize a few texts, and for their own count of a request
    whose estimate is uncertain; in the background, with the request's own credentials."""


class RecallSettings(Section):
    """Whether the model can ask for messages that left its prompt."""

    enabled: bool = False
    """Offer the tool `chat_proxy_recall` from the first cut of a conversation on. The proxy answers
    its calls itself: the client never sees them."""
    max_rounds: Annotated[int, Field(ge=1, le=10)] = 3
    """How often the model may ask within one answer."""
    max_tokens: Annotated[int, Field(ge=100)] = 4_000
    """Maximum tokens of one recalled text; never more than the window has room for."""
    without_tools: bool = False
    """Offer it to requests that bring no tools of their own too. The model must be able to call
    tools: vLLM refuses them unless it was started with a tool parser."""


class CommandsSettings(Section):
    """Commands that users can write in a conversation."""

    enabled: bool = True
    """Answer the command `/compact` if it is the last user message."""
