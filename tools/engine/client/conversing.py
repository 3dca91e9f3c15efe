"""A client that keeps its whole history and sends it with every request."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from tools.engine.client.asking import Answer, Asker
from tools.engine.client.talk import SYSTEM, TOOLS, Talk, answered
from tools.engine.client.wires import Messages
from tools.engine.findings import percentile
from tools.engine.progress import tell

FIRST_LESSONS = 10
"""Requests after which the proxy is expected to have learned how the engine counts."""


@dataclass
class Run:
    """The answers of one conversation, in order."""

    answers: list[Answer] = field(default_factory=list)

    @property
    def errors(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.status != 200]

    @property
    def replays(self) -> int:
        return sum("replay" in answer.stages for answer in self.answers)

    @cached_property
    def breaks(self) -> list[Answer]:
        """The requests that were sent shorter than the one before: there history was folded."""
        pairs = zip(self.answers, self.answers[1:], strict=False)
        return [later for earlier, later in pairs if later.prompt_tokens < earlier.prompt_tokens]

    @property
    def largest_prompt(self) -> int:
        return max(answer.prompt_tokens for answer in self.answers)

    @property
    def counting_error(self) -> float:
        """The 95th percentile of the counting error, once the proxy has learned."""
        learned = [answer for answer in self.answers[FIRST_LESSONS:] if answer.prompt_tokens]
        return percentile([answer.counting_error for answer in learned], 0.95)

    @property
    def cached_share(self) -> float:
        """The share of prompt tokens from the engine's cache, in requests that only append."""
        appended = [answer for answer in self.answers[1:] if answer not in self.breaks]
        return _share(appended)

    @property
    def kept_share(self) -> float:
        """The share from the cache of what the request before had sent, in those that append."""
        pairs = zip(self.answers, self.answers[1:], strict=False)
        appended = [(old, new) for old, new in pairs if new not in self.breaks]
        sent = sum(earlier.prompt_tokens for earlier, _ in appended)
        return sum(later.cached_tokens for _, later in appended) / sent

    @property
    def whole_cached_share(self) -> float:
        """The same over all requests."""
        return _share(self.answers)


async def converse(
    asker: Asker, turns: Iterable[Messages], *, with_tools: bool = True, words: Talk | None = None
) -> Run:
    """Talk so many turns, every second one streamed; an error is kept and the talk goes on.

    With `words`, the history has words in the place of the model's answers. Tokens drawn at random
    cost a third less than our count of them, words do not: where a summary takes their place, such
    a history changes its price as no other does.
    """
    run = Run()
    history: Messages = [SYSTEM]
    tools = TOOLS if with_tools else []
    for number, added in enumerate(turns):
        tell(f"turn {number + 1}: {run.answers[-1].prompt_tokens if run.answers else 0} tokens")
        history += added
        answer = await asker.ask(history, streams=number % 2 == 1, tools=tools)
        run.answers.append(answer)
        text = words.prose(20) if words else answer.text
        history.append(answered(text if answer.status == 200 else "(no answer)"))
    return run


def _share(answers: list[Answer]) -> float:
    return sum(a.cached_tokens for a in answers) / sum(a.prompt_tokens for a in answers)
