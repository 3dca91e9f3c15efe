"""Where each model is served and which key it gets; from configuration only."""

from collections.abc import Mapping
from dataclasses import dataclass

from chat_proxy.http.headers import RawHeaders
from chat_proxy.proxy.routing.caller import Caller
from chat_proxy.registry.model_card import ModelCard


@dataclass(frozen=True, slots=True)
class Destinations:
    """The common upstream, and the models' own."""

    base_url: str
    api_key: str | None
    model_keys: Mapping[str, str]

    def base_url_of(self, card: ModelCard) -> str:
        """Return the model's own base URL, or the common one."""
        return card.base_url or self.base_url

    def credentials_for(self, card: ModelCard, caller: Caller) -> RawHeaders:
        """Return the identity that the upstream gets.

        A key of ours goes only where it belongs; a model with its own base URL and no key of its
        own gets the client's credentials, never the common upstream's key.
        """
        key = self.model_keys.get(card.api_key_env) if card.api_key_env else None
        if key is None and card.base_url is None:
            key = self.api_key
        if key is None:
            return caller.credentials
        return [(b"authorization", b"Bearer " + key.encode("ascii"))]
