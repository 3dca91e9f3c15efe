"""Upstreams that refuse the parameters of a contract, as they were seen to."""

import re
import time
from collections.abc import Callable
from typing import Final

from chat_proxy.caches import BoundedDict
from chat_proxy.proxy.routing.model_route import ModelRoute
from chat_proxy.wires.wire import Wire

MAX_REFUSALS: Final = 10_000
FORGOTTEN_SECONDS: Final = 86_400.0
_STATUSES: Final = (400, 404, 405, 422, 501)
_PARAMETERS: Final = r"context_management|compaction_trigger|compaction|compact_threshold"
_REFUSAL: Final = re.compile(
    rf"(?:{_PARAMETERS}|compact_20\d{{6}}|clear_(?:tool_uses|thinking)_20\d{{6}})"
    r".{0,200}?(?:extra inputs|extra_forbidden|not permitted|not supported|unsupported"
    r"|unknown|unrecognized|unexpected|not allowed|does not match|invalid value|not found)"
    r"|(?:extra inputs|not permitted|not supported|unsupported|unknown|unrecognized|unexpected"
    r"|not allowed|invalid value)"
    rf".{{0,200}}?(?:{_PARAMETERS}|compact_20\d{{6}})"
    r"|cannot determine type of 'item'",
    re.IGNORECASE | re.DOTALL,
)
_LOOKED_AT_BYTES: Final = 16 * 1024


def is_contract_refusal(status: int, body: bytes) -> bool:
    """Return whether an upstream's error says that it does not know a contract's parameters."""
    if status not in _STATUSES:
        return False
    return _REFUSAL.search(body[:_LOOKED_AT_BYTES].decode("utf-8", "replace")) is not None


class LearnedRefusals:
    """Which upstreams refused contracts; keyed by tenant, base URL, wire and model, for a day.

    At most MAX_REFUSALS. A tenant learns for itself alone: upstreams repeat in their errors what a
    client wrote, and refuse to one account what they do for another.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: BoundedDict[tuple[str, ...], float] = BoundedDict(MAX_REFUSALS)

    def add(self, tenant: str, route: ModelRoute, wire: Wire) -> None:
        """Remember that an upstream refused a tenant's request."""
        self._seen.put((tenant, route.base_url, wire.name, route.model), self._clock())

    def has(self, tenant: str, route: ModelRoute, wire: Wire) -> bool:
        """Return whether an upstream refused a tenant's request within the last day."""
        seen = self._seen.get((tenant, route.base_url, wire.name, route.model))
        return seen is not None and self._clock() - seen < FORGOTTEN_SECONDS
