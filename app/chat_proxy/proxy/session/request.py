"""A request to be compacted, and the result."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.checkpoint import Checkpoint
from chat_proxy.compaction.contracts.client_compaction import client_compacting
from chat_proxy.compaction.pipeline import Failure, Step
from chat_proxy.compaction.planner.report import PlanReport
from chat_proxy.errors import InvalidValue
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.routing.caller import Caller
from chat_proxy.proxy.routing.model_policy import ModelPolicy
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.session.recognition.scope import Scope
from chat_proxy.proxy.sizing.measure import Measured, Sizing, TokenCount, measure
from chat_proxy.telemetry.tracing.span import NO_SPAN, RequestSpan
from chat_proxy.tokens.counter import RequestCount
from chat_proxy.wires.body import body_with, wire_of
from chat_proxy.wires.contracts.contract import ClearResults, ClearThinking


class CompactionRequest(NamedTuple):
    """A measured request with everything that its compaction depends on."""

    request: ChatRequest
    measured: Measured
    route: ModelRoute
    tenant: str
    credentials: RawHeaders
    request_id: str
    is_dry_run: bool
    """Whether nothing may be stored: the result is only shown."""
    span: RequestSpan = NO_SPAN
    """The parent of the spans of our own queries."""
    instruction: str = ""
    """What the client wants from a summary."""
    clear_results: ClearResults | None = None
    """Which tool uses the client wants to be cleared."""
    clear_thinking: ClearThinking | None = None
    """How much thinking the client wants to be cleared."""

    @property
    def conversation(self) -> Conversation:
        """The conversation as the client sent it."""
        return self.measured.conversation

    @property
    def client_compacting(self) -> str:
        """The client whose own compaction request this is; empty if it is none."""
        return client_compacting(self.conversation)

    @property
    def policy(self) -> ModelPolicy:
        """The policy of the request's model."""
        return self.route.policy

    @property
    def offers_recall(self) -> bool:
        """Whether the model can ask for what is cut."""
        return self.policy.recall.offers(self.request.options)

    @property
    def scope(self) -> Scope:
        """The scope of the decisions about this request: its tenant, model and policy."""
        return Scope(self.tenant, self.route.fingerprint)


class Cleared(NamedTuple):
    """What a client's wish has cleared in a request, and the tokens that this saves."""

    results: int = 0
    result_tokens: int = 0
    thinking_turns: int = 0
    thinking_tokens: int = 0


class CompactionResult(NamedTuple):
    """The conversation that is sent, and the stages that made it."""

    conversation: Conversation
    token_count: TokenCount
    steps: tuple[Step, ...] = ()
    failures: tuple[Failure, ...] = ()
    notices: tuple[str, ...] = ()
    label: str = "none"
    is_break: bool = False
    """Whether this request changes the prompt's prefix, because it was compacted again."""
    plan: PlanReport | None = None
    """What was planned for each group, if the request was near its window."""
    output: Mapping[str, int] = MappingProxyType({})
    """The output fields that were lowered below what the client asked for."""
    unfit: str = ""
    """Why no form of the request fits, one sentence with numbers; empty if one does."""
    reason: str = ""
    """Why the request was not compacted as it should be, one sentence; empty if it was."""
    waited_seconds: float = 0.0
    """How long the request waited for a summary."""
    checkpoint: Checkpoint | None = None
    """The decisions about the history that are applied."""
    history_id: str = ""
    """The id of the folded messages, by which their tenant can ask for them."""
    cleared: Cleared = Cleared()
    """What was cleared because the client asked for it."""
    client: str = ""
    """The client whose own compaction request this is; empty if it is none."""

    @property
    def counted(self) -> RequestCount:
        """The tokens by kind, before calibration."""
        return self.token_count.counted

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that changed something, each once."""
        return tuple(dict.fromkeys([step.stage for step in self.steps])) if self.steps else ()


def unchanged_result(compaction: CompactionRequest) -> CompactionResult:
    """Return the result for a request that is sent unchanged."""
    return CompactionResult(compaction.measured.conversation, compaction.measured.token_count)


def body_of(
    compaction: CompactionRequest,
    conversation: Conversation,
    output: Mapping[str, int] | None = None,
    tool: dict[str, Any] | None = None,
) -> bytes:
    """Return the request body with this conversation; unchanged messages keep their bytes.

    `output` lowers the limits of the answer; `tool` is one that the proxy adds.
    """
    if conversation is compaction.conversation and not output and not tool:
        return compaction.request.body
    return body_with(compaction.request, compaction.conversation, conversation, output, tool)


async def counted_request(
    request: ChatRequest,
    route: ModelRoute,
    caller: Caller,
    request_id: str,
    sizing: Sizing,
    *,
    is_dry_run: bool = False,
) -> CompactionRequest:
    """Return a request counted by a loaded tokenizer; raise InvalidValue if it cannot be."""
    credentials = route.credentials_for(caller)
    measured = await measure(request, route, credentials, sizing)
    if measured is not None and measured.counted.is_guess:
        await sizing.tokenizers.loaded(measured.rules.encoding)
        measured = await measure(request, route, credentials, sizing)
    if measured is None:
        key = wire_of(request).key
        raise InvalidValue(f"{key} must be a list of objects.", param=key)
    return CompactionRequest(
        request, measured, route, caller.tenant, credentials, request_id, is_dry_run
    )
