"""What the contracts of requests are kept with."""

from dataclasses import dataclass, field

from chat_proxy.chat.body.parsed_body import RequestLimits
from chat_proxy.proxy.compacting.services import CompactionServices
from chat_proxy.proxy.contracts.refusals import LearnedRefusals
from chat_proxy.proxy.forwarding.send import Forwarding
from chat_proxy.proxy.sizing.measure import Sizing
from chat_proxy.store.base import Store


@dataclass(frozen=True, slots=True)
class ContractServices:
    """Which upstreams refuse contracts, and the parts of the journey that keep them."""

    sizing: Sizing
    compaction: CompactionServices
    forwarding: Forwarding
    limits: RequestLimits
    """The limits of a request's JSON, also with its sealed prompt opened."""
    refusals: LearnedRefusals = field(default_factory=LearnedRefusals)

    @property
    def store(self) -> Store:
        """The store whose secret seals prompts."""
        return self.compaction.checkpoints.store

    @property
    def max_body_bytes(self) -> int:
        """The longest body that a request may have with its sealed prompt opened."""
        return self.forwarding.policy.max_body_bytes
