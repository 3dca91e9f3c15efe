"""The models that may write a summary, in the order in which they are asked."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from app.compaction.budget import Budget
from app.proxy.case import Case
from app.proxy.services import Services
from app.proxy.window import find_window
from app.tokens.overheads import UpstreamKind
from app.upstream.headers import RawHeaders

Shape = Literal["ride", "transcript"]


@dataclass(frozen=True, slots=True)
class Seat:
    """A model with the way to it; `shapes` are the forms of question it is asked in, in order.

    *ride*: the prompt that its cache already has, with the instruction behind it. *transcript*:
    the messages written down as text, for a model that takes no part in the conversation.
    """

    base_url: str
    model: str
    credentials: RawHeaders
    window: int
    kind: UpstreamKind
    shapes: tuple[Shape, ...]

    @property
    def is_own(self) -> bool:
        """Whether it is the request's own model, which has seen the conversation."""
        return "ride" in self.shapes

    @property
    def name(self) -> str:
        """What its failures are counted under."""
        return f"{self.base_url} {self.model}"


async def seats_for(case: Case, budget: Budget, services: Services) -> list[Seat]:
    """Return the configured summary model, then the request's own, each once."""
    own = await own_seat(case, budget, services)
    other = await configured_seat(case, budget, services, own)
    return [own] if other is None else [other, own]


async def own_seat(case: Case, budget: Budget, services: Services) -> Seat:
    """Return the request's own model at its own upstream.

    It gets the client's own authorization, unless a key for summaries is meant for it.
    """
    base_url = case.to.base_url
    listing = await services.windows.of(base_url, case.credentials)
    policy, model = case.policy.summary, case.to.model
    is_configured = policy.base_url in (None, base_url) and policy.model in (None, model)
    key = policy.api_key if is_configured else None
    return Seat(
        base_url,
        model,
        [(b"authorization", b"Bearer " + key.encode("ascii"))] if key else case.credentials,
        min(budget.window, budget.input_limit or budget.window),
        listing.kind,
        ("ride", "transcript"),
    )


async def configured_seat(case: Case, budget: Budget, services: Services, own: Seat) -> Seat | None:
    """Return the summary model that the settings name, unless it is the request's own."""
    policy = case.policy.summary
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
    return Seat(base_url, model, credentials, tokens, listing.kind, ("transcript",))


def credentials_at(base_url: str, api_key: str | None, own: Seat) -> Iterator[tuple[bytes, bytes]]:
    """Yield the identity for a summary server: its own key, or the client's where it is the same.

    A client's key never goes to a server that the client did not ask for.
    """
    if api_key is not None:
        yield b"authorization", b"Bearer " + api_key.encode("ascii")
    elif base_url == own.base_url:
        yield from own.credentials
