"""The upstream of each model and its key, from configuration only."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chat_proxy.registry.model_card import ModelCard


@dataclass(frozen=True, slots=True)
class Destinations:
    """The common upstream, and the upstreams of single models."""

    base_url: str
    api_key: str | None = field(repr=False)
    model_keys: Mapping[str, str] = field(repr=False)

    def base_url_of(self, card: ModelCard) -> str:
        """Return the model's own base URL, or the common one."""
        return card.base_url or self.base_url

    def key_for(self, card: ModelCard) -> str | None:
        """Return the proxy's own key for the model's upstream, None if clients bring theirs.

        A model with its own base URL and no key of its own never gets the common upstream's key.
        """
        key = self.model_keys.get(card.api_key_env) if card.api_key_env else None
        if key is None and card.base_url is None:
            return self.api_key
        return key
