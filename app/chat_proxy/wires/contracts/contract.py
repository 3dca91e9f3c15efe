"""What a client asks the server to do about its context, in the words of the core."""

from dataclasses import dataclass
from typing import Final

from chat_proxy.wires.reading import Fields


@dataclass(frozen=True, slots=True)
class ClearResults:
    """How old tool results are cleared: from a size, or from a number of results, on."""

    trigger_tokens: int | None = None
    trigger_results: int | None = None
    keep: int = 3
    """How many of the newest results stay."""
    least_tokens: int = 0
    """Nothing is cleared if that would save fewer tokens."""
    excluded_tools: frozenset[str] = frozenset()
    clears_calls: bool | frozenset[str] = False
    """Whether the arguments of the calls are cleared too, of all tools or of these."""


@dataclass(frozen=True, slots=True)
class ClearThinking:
    """How the thinking of older turns is cleared."""

    keep_turns: int | None = None
    """How many of the newest turns keep it; None: all."""


@dataclass(frozen=True, slots=True)
class Contract:
    """What a request asks the server to do about its context; whoever does it does all of it."""

    compacts: bool = False
    """Whether the conversation is to be compacted at a trigger."""
    trigger: int | None = None
    """The prompt size in tokens from which it is; None: the server decides."""
    compacts_now: bool = False
    """Whether it is to be compacted at once, and nothing else is to be answered."""
    instructions: str = ""
    """What the client wants from the summary."""
    pauses: bool = False
    """Whether the answer ends behind the compaction."""
    clear_results: ClearResults | None = None
    clear_thinking: ClearThinking | None = None
    sealed: str | None = None
    """The newest sealed prompt that the client sends back; it stands for all before it."""
    has_items: bool = False
    """Whether the history has compactions of any kind, which no engine can read."""
    mistake: str = ""
    """What is wrong with the parameters, one sentence; empty if nothing is."""
    param: str = ""
    """The name of the field that is wrong."""

    @property
    def clears(self) -> bool:
        """Whether something is to be cleared."""
        thinking = self.clear_thinking
        return self.clear_results is not None or (
            thinking is not None and thinking.keep_turns is not None
        )

    @property
    def asks_nothing(self) -> bool:
        """Whether the parameters say no more than that all stays as it is."""
        compacts = self.compacts or self.compacts_now
        has_items = self.has_items or self.sealed is not None
        return not (compacts or self.clears or self.mistake or has_items)


@dataclass(frozen=True, slots=True)
class SealedPrompt:
    """The prompt that a compaction leaves, as its client carries it: no store is needed.

    Items are in the form of their wire, which alone reads them.
    """

    wire: str
    items: tuple[Fields, ...]
    """The folded text and all that follows it, up to the end of the request."""
    instructions: tuple[Fields, ...] = ()
    """The instructions in front, for a client that dropped its own."""
    created: int = 0
    """When it was made, in seconds since 1970."""
    text: str = ""
    """What the client was told that it stands for."""


@dataclass(frozen=True, slots=True)
class ContractOutcome:
    """What was done for a contract, as the answer reports it."""

    sealed: str = ""
    """The sealed prompt; empty if nothing was compacted."""
    text: str = ""
    """The folded text in plain words."""
    tokens_before: int = 0
    summary_tokens: int = 0
    """The tokens of the folded text."""
    cleared_results: int = 0
    cleared_result_tokens: int = 0
    cleared_thinking_turns: int = 0
    cleared_thinking_tokens: int = 0
    is_asked: bool = False
    """Whether the request asked for anything: then the answer says what was done."""


NOTHING_DONE: Final = ContractOutcome()
