"""The route of a model: where it is served, and which policy its requests have."""

from dataclasses import dataclass, field
from hashlib import sha256

from chat_proxy.caches import BoundedDict
from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.routing.caller import Caller
from chat_proxy.proxy.routing.destinations import Destinations
from chat_proxy.proxy.routing.model_policy import ModelPolicies, ModelPolicy
from chat_proxy.registry.model_card import ModelCard
from chat_proxy.registry.registry import ModelRegistry

REMEMBERED_NAMES = 1_000
NAME_CHARS = 1_024


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """Everything that depends on a model's name alone."""

    model: str
    """The client's name for the model, shortened if it is very long."""
    card: ModelCard
    policy: ModelPolicy
    base_url: str
    api_key: str | None = field(repr=False)
    """The proxy's own key for the upstream; without one the client's credentials are sent."""
    fingerprint: bytes
    """Identifies all settings that decide how a conversation with this model is compacted."""

    def credentials_for(self, caller: Caller) -> RawHeaders:
        """Return the headers by which the upstream identifies the request."""
        if self.api_key is None:
            return caller.credentials
        return [(b"authorization", b"Bearer " + self.api_key.encode("ascii"))]


class ModelRoutes:
    """Find the route of a model name; routes are cached by name, which holds no tenant's data."""

    def __init__(
        self, registry: ModelRegistry, policies: ModelPolicies, destinations: Destinations
    ) -> None:
        self._registry = registry
        self._policies = policies
        self._destinations = destinations
        self._known: BoundedDict[str, ModelRoute] = BoundedDict(REMEMBERED_NAMES)

    @property
    def have_own_upstreams(self) -> bool:
        """Whether any model has its own upstream."""
        return self._registry.has_own_upstreams

    def of(self, model: str) -> ModelRoute:
        """Return the route of a model; the common upstream serves one that is not registered."""
        if len(model) > NAME_CHARS:
            model = shortened_name(model)
        route = self._known.get(model)
        if route is None:
            route = self._make(model)
            self._known.put(model, route)
        return route

    def _make(self, model: str) -> ModelRoute:
        card = self._registry.find(model)
        policy = self._policies.of(card)
        return ModelRoute(
            model,
            card,
            policy,
            self._destinations.base_url_of(card),
            self._destinations.key_for(card),
            policy.fingerprint + model.encode("utf-8", "replace"),
        )


def shortened_name(model: str) -> str:
    """Return a short name for a very long one, made from its ends and its length.

    Names are matched against many patterns and kept in many caches.
    """
    ends = f"{len(model)} {model[:NAME_CHARS]}{model[-NAME_CHARS:]}"
    return f"{model[:64]}...{sha256(ends.encode('utf-8', 'surrogatepass')).hexdigest()}"
