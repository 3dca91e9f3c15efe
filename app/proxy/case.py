"""One request to be compacted, and what became of it."""

from typing import Any, NamedTuple

from app.chat.conversation import Conversation
from app.chat.request import ChatRequest
from app.chat.splice import splice
from app.compaction.pipeline import Failure, Step
from app.proxy.addressee import Addressee
from app.proxy.checkpoints import Scope
from app.proxy.measure import Measured, Weight
from app.proxy.model_policy import ModelPolicy
from app.tokens.counter import RequestCount
from app.upstream.headers import RawHeaders


class Case(NamedTuple):
    """A request with all that decides what becomes of it."""

    request: ChatRequest
    measured: Measured
    to: Addressee
    tenant: str
    credentials: RawHeaders
    request_id: str
    is_dry: bool
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


class Outcome(NamedTuple):
    """What became of a conversation, and by what."""

    conversation: Conversation
    weight: Weight
    steps: tuple[Step, ...] = ()
    failures: tuple[Failure, ...] = ()
    notices: tuple[str, ...] = ()
    label: str = "none"
    is_break: bool = False
    """Whether the prompt's prefix changes here: a compaction took place."""

    @property
    def counted(self) -> RequestCount:
        """The tokens by kind, before calibration."""
        return self.weight.counted

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that changed something, each once."""
        return tuple(dict.fromkeys([step.stage for step in self.steps])) if self.steps else ()


def as_it_came(case: Case) -> Outcome:
    """Return the outcome of a request with which nothing was to be done."""
    return Outcome(case.measured.conversation, case.measured.weight)


def body_of(case: Case, conversation: Conversation) -> bytes:
    """Return the request's body with this conversation; untouched messages keep their bytes."""
    if conversation is case.conversation:
        return case.request.body
    return splice(case.request.body, references(case, conversation), case.request.fields)


def references(case: Case, conversation: Conversation) -> list[int | dict[str, Any]]:
    """Return the messages, those that are the client's own by their place in its list."""
    original = case.conversation.fields
    return [
        origin if origin is not None and fields is original[origin] else fields
        for origin, fields in zip(conversation.origins, conversation.fields, strict=True)
    ]
