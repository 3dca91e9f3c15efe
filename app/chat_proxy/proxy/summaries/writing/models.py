"""The models that may write a summary, in the order in which they are asked."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from chat_proxy.compaction.budget import Budget
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.session.request import CompactionRequest
from chat_proxy.proxy.sizing.context_window import find_window
from chat_proxy.proxy.summaries.services import SummaryServices
from chat_proxy.tokens.overheads import UpstreamKind

Shape = Literal["ride", "transcript"]


@dataclass(frozen=True, slots=True)
class SummaryModel:
    """A model that writes summaries, and its server; `shapes` are the forms of query, in order.

    *ride*: the prompt that the model's cache already has, followed by the instruction.
    *transcript*: the messages as text, for a model that takes no part in the conversation.
    """

    base_url: str
    model: str
    credentials: RawHeaders
    window: int
    kind: UpstreamKind
    shapes: tuple[Shape, ...]

    @property
    def is_own(self) -> bool:
        """Whether this is the request's own model, which has seen the conversation."""
        return "ride" in self.shapes

    @property
    def name(self) -> str:
        """The key of the fields that it refuses and, with the tenant, of its circuit breaker."""
        return f"{self.base_url} {self.model}"


async def models_for(
    compaction: CompactionRequest, budget: Budget, services: SummaryServices
) -> list[SummaryModel]:
    """Return the configured summary model, if it is another one, then the request's own."""
    own = await own_model(compaction, budget, services)
    other = await configured_model(compaction, budget, services, own)
    return [own] if other is None else [other, own]


async def own_model(
    compaction: CompactionRequest, budget: Budget, services: SummaryServices
) -> SummaryModel:
    """Return the request's own model at its own upstream.

    It gets the client's own credentials, unless the summary key is configured for it.
    """
    base_url = compaction.route.base_url
    listing = await services.windows.of(base_url, compaction.credentials)
    policy, model = compaction.policy.summary, compaction.route.model
    is_configured = policy.base_url in (None, base_url) and policy.model in (None, model)
    key = policy.api_key if is_configured else None
    return SummaryModel(
        base_url,
        model,
        [(b"authorization", b"Bearer " + key.encode("ascii"))] if key else compaction.credentials,
        min(budget.window, budget.input_limit or budget.window),
        listing.kind,
        ("ride", "transcript"),
    )


async def configured_model(
    compaction: CompactionRequest, budget: Budget, services: SummaryServices, own: SummaryModel
) -> SummaryModel | None:
    """Return the configured summary model, None if it is the request's own."""
    policy = compaction.policy.summary
    base_url = policy.base_url or own.base_url
    model = policy.model or own.model
    if (base_url, model) == (own.base_url, own.model):
        return None
    credentials = list(credentials_at(base_url, policy.api_key, own))
    listing = await services.windows.of(base_url, credentials)
    window = find_window(
        model,
        setting=None,
        registry=services.registry.find(model).context_window,
        discovered=listing.windows.get(model),
    )
    tokens = window.tokens if window else budget.window
    return SummaryModel(base_url, model, credentials, tokens, listing.kind, ("transcript",))


def credentials_at(
    base_url: str, api_key: str | None, own: SummaryModel
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the credentials for a summary server: its own key, or those of the same upstream.

    A client's key is never sent to a server that the client did not address.
    """
    if api_key is not None:
        yield b"authorization", b"Bearer " + api_key.encode("ascii")
    elif base_url == own.base_url:
        yield from own.credentials
