"""The policy of one model: the common settings, or those that its registry entry overrides."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from hashlib import sha256
from math import ceil

from chat_proxy.chat.normal_form.volatile_blocks import VolatileBlocks
from chat_proxy.compaction.ageing.policy import AgeingPolicy
from chat_proxy.compaction.budget import Budget, BudgetPolicy
from chat_proxy.compaction.pipeline import Pipeline
from chat_proxy.compaction.recall.policy import NO_RECALL, RecallPolicy
from chat_proxy.compaction.stages.order import StagePolicies
from chat_proxy.proxy.routing.summary_policy import SummaryPolicy
from chat_proxy.registry.model_card import ModelCard
from chat_proxy.tokens.counter import RequestCount
from chat_proxy.tokens.overheads import CountingRules, UpstreamKind, refined, rules_for

REMEMBERED_RULES = 1_000


@dataclass(frozen=True, slots=True)
class ModelPolicy:
    """How a model's requests are counted, when they are too long, and what is done about it."""

    mode: str
    context_window: int | None
    budget: BudgetPolicy
    encoding: str
    image_tokens: int
    stages: StagePolicies
    ageing: AgeingPolicy
    idle_seconds: float
    summary: SummaryPolicy
    replays: bool
    clips_output: bool
    volatile: VolatileBlocks
    """The blocks of user messages that are no part of a history's identity."""
    max_pixels: int = 0
    """The most pixels of an image, whatever the window; 0: images are scaled only if needed."""
    asks_about_images: bool = False
    """Whether the model is asked what images show, for the notes that replace them."""
    recall: RecallPolicy = NO_RECALL
    contracts: str = "auto"
    """Who keeps the contracts of requests: `proxy`, `upstream`, or `auto`."""
    pipeline: Pipeline = field(init=False)
    fingerprint: bytes = field(init=False)
    """Identifies the settings that decide how a conversation is compacted."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "pipeline", Pipeline(self.stages))
        tail = (self.budget.tail_turns, self.budget.tail_tokens)
        substance = f"{_plain(self.stages)} {_plain(self.ageing)} {tail} {self.summary.substance}"
        substance += f" {self.max_pixels}" if self.max_pixels else ""
        # Folds and notes name what can be recalled; without recall they are as they always were.
        substance += " recall" if self.recall.enabled else ""
        object.__setattr__(self, "fingerprint", sha256(substance.encode()).digest())

    def most_gain(self, count: RequestCount, ratio: float, budget: Budget) -> int:
        """Return the maximum of tokens that ageing can save, computed without ageing."""
        results = ceil(count.tool_results * ratio)
        largest = ceil(max(count.messages, default=0) * ratio)
        return self.ageing.most_gain(results, largest, budget)


class ModelPolicies:
    """The policy of every model, and the counting rules that follow from it."""

    def __init__(self, common: ModelPolicy, own: Mapping[str, ModelPolicy]) -> None:
        self._common = common
        self._own = own
        self._rules = lru_cache(maxsize=REMEMBERED_RULES)(self._make_rules)

    @property
    def count_anything(self) -> bool:
        """Whether the requests of any model are counted at all."""
        return any(policy.mode != "off" for policy in (self._common, *self._own.values()))

    @property
    def default_encoding(self) -> str:
        """The encoding that most requests will need."""
        return self._common.encoding

    def of(self, card: ModelCard) -> ModelPolicy:
        """Return the model's policy."""
        return self._own.get(card.name, self._common)

    def rules(
        self, card: ModelCard, model: str, kind: UpstreamKind, bases: tuple[str, ...] = ()
    ) -> CountingRules:
        """Return the counting rules of a model; the registry entry has priority."""
        return self._rules(card.name, card.encoding, card.image_family, model, kind, bases)

    def _make_rules(
        self,
        name: str,
        encoding: str | None,
        image_family: str | None,
        model: str,
        kind: UpstreamKind,
        bases: tuple[str, ...],
    ) -> CountingRules:
        policy = self._own.get(name, self._common)
        rules = rules_for(
            model,
            kind,
            encoding=encoding,
            image_family=image_family,
            default_encoding=policy.encoding,
            image_tokens=policy.image_tokens,
        )
        return refined(rules, bases, keeps_digits=encoding is not None)


def _plain(value: object) -> str:
    """Return a policy as text that is the same in every process: sets in order."""
    if is_dataclass(value):
        members = (f"{item.name}={_plain(getattr(value, item.name))}" for item in fields(value))
        return f"{type(value).__name__}({','.join(members)})"
    if isinstance(value, frozenset):
        return repr(sorted(value))
    return repr(value)
