"""Routes of models at some upstream."""

from chat_proxy.config.policies import model_policy
from chat_proxy.config.settings import Settings
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.registry.model_card import ModelCard


def route_to(base_url: str, model: str) -> ModelRoute:
    """The route of a model that is served there."""
    policy = model_policy(Settings(_env_file=None))
    return ModelRoute(model, ModelCard(model), policy, base_url, None, policy.fingerprint)
