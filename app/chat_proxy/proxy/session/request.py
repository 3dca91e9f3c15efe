"""One request to be compacted, and what became of it."""

from typing import Any, NamedTuple

from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.body.splice import splice
from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.pipeline import Failure, Step
from chat_proxy.errors import InvalidValue
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.routing.caller import Caller
from chat_proxy.proxy.routing.model_policy import ModelPolicy
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.proxy.services import Services
from chat_proxy.proxy.session.checkpoints import Scope
from chat_proxy.proxy.sizing.measure import Measured, TokenCount, measure
from chat_proxy.tokens.counter import RequestCount


class CompactionRequest(NamedTuple):
    """A request with all that decides what becomes of it."""

    request: ChatRequest
    measured: Measured
    to: ModelRoute
    tenant: str
    credentials: RawHeaders
    request_id: str
    is_dry_run: bool
    """Whether this is only a look at what would be done: then nothing is kept."""

    @property
    def conversation(self) -> Conversation:
        """The conversation as the client sent it."""
        return self.measured.conversation

    @property
    def policy(self) -> ModelPolicy:
        """How this model's requests are treated."""
        return self.to.policy

    @property
    def scope(self) -> Scope:
        """Who may use what is decided here: the same tenant, model and policy."""
        return Scope(self.tenant, self.to.fingerprint)


class CompactionResult(NamedTuple):
    """What became of a conversation, and by what."""

    conversation: Conversation
    token_count: TokenCount
    steps: tuple[Step, ...] = ()
    failures: tuple[Failure, ...] = ()
    notices: tuple[str, ...] = ()
    label: str = "none"
    is_break: bool = False
    """Whether the prompt's prefix changes here: a compaction took place."""

    @property
    def counted(self) -> RequestCount:
        """The tokens by kind, before calibration."""
        return self.token_count.counted

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that changed something, each once."""
        return tuple(dict.fromkeys([step.stage for step in self.steps])) if self.steps else ()


def unchanged_result(compaction: CompactionRequest) -> CompactionResult:
    """Return the outcome of a request with which nothing was to be done."""
    return CompactionResult(compaction.measured.conversation, compaction.measured.token_count)


def body_of(compaction: CompactionRequest, conversation: Conversation) -> bytes:
    """Return the request's body with this conversation; untouched messages keep their bytes."""
    if conversation is compaction.conversation:
        return compaction.request.body
    return splice(
        compaction.request.body, references(compaction, conversation), compaction.request.fields
    )


def references(
    compaction: CompactionRequest, conversation: Conversation
) -> list[int | dict[str, Any]]:
    """Return the messages, those that are the client's own by their place in its list."""
    original = compaction.conversation.fields
    return [
        origin if origin is not None and fields is original[origin] else fields
        for origin, fields in zip(conversation.origins, conversation.fields, strict=True)
    ]


async def counted_request(
    request: ChatRequest,
    caller: Caller,
    request_id: str,
    services: Services,
    *,
    is_dry_run: bool = False,
) -> CompactionRequest:
    """Return a request counted by a loaded tokenizer; InvalidValue if nobody understands it."""
    to = services.model_routes.of(request.model)
    credentials = services.destinations.credentials_for(to.card, caller)
    measured = await measure(request, to, credentials, services)
    if measured is not None and measured.counted.is_guess:
        await services.tokenizers.loaded(measured.rules.encoding)
        measured = await measure(request, to, credentials, services)
    if measured is None:
        raise InvalidValue("messages must be a list of objects.", param="messages")
    return CompactionRequest(
        request, measured, to, caller.tenant, credentials, request_id, is_dry_run
    )
