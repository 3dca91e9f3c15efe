"""The model that a request is for: where it is served, and how its requests are treated."""

from dataclasses import dataclass
from hashlib import sha256

from chat_proxy.proxy.routing.destinations import Destinations
from chat_proxy.proxy.routing.model_policy import ModelPolicies, ModelPolicy
from chat_proxy.registry.model_card import ModelCard
from chat_proxy.registry.registry import ModelRegistry

REMEMBERED_NAMES = 1_000
NAME_CHARS = 1_024


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """All that follows from a model's name alone."""

    model: str
    """The name by which all that is known of it is remembered; the client's, unless endless."""
    card: ModelCard
    policy: ModelPolicy
    base_url: str
    fingerprint: bytes
    """Names all that decides what is kept of a conversation with this model."""


class ModelRoutes:
    """Finds the addressee of a name; the few that come again and again are remembered."""

    def __init__(
        self, registry: ModelRegistry, policies: ModelPolicies, destinations: Destinations
    ) -> None:
        self._registry = registry
        self._policies = policies
        self._destinations = destinations
        self._known: dict[str, ModelRoute] = {}

    def of(self, model: str) -> ModelRoute:
        """Return who is meant by a name; anybody's default upstream serves an unknown one."""
        if len(model) > NAME_CHARS:
            model = short_for(model)
        found = self._known.get(model)
        return self._make(model) if found is None else found

    def _make(self, model: str) -> ModelRoute:
        card = self._registry.find(model)
        policy = self._policies.of(card)
        made = ModelRoute(
            model,
            card,
            policy,
            self._destinations.base_url_of(card),
            policy.fingerprint + model.encode("utf-8", "replace"),
        )
        if len(self._known) >= REMEMBERED_NAMES:
            self._known.clear()
        self._known[model] = made
        return made


def short_for(model: str) -> str:
    """Return what stands for an endless name, made of its ends and length.

    Names are looked at by many patterns and remembered in many places, thousands of them.
    """
    ends = f"{len(model)} {model[:NAME_CHARS]}{model[-NAME_CHARS:]}"
    return f"{model[:64]}...{sha256(ends.encode('utf-8', 'surrogatepass')).hexdigest()}"
