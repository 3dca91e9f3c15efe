"""A session sent through a system, and what of it was in the prompt at some points."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.conversation.model import Call
from bench.conversation.prompt import Json, Prompt, rendered, text_of
from bench.conversation.replay import REFUSALS_TO_GIVE_UP, price
from bench.conversation.senders import Sender
from bench.quality.bill import Bill, bill_of
from bench.quality.evidence import Evidence
from bench.quality.recordings.session import Session
from bench.quality.systems import Setting, System

# One prompt says little: it may be the last one before a fold, or the first one after it.
POINTS = tuple(percent / 100 for percent in range(50, 101, 5))


@dataclass(frozen=True, slots=True)
class Asked:
    """The questions at one point: how many, and how many have their evidence in the prompt."""

    questions: int
    known: int
    """By the key terms of the evidence."""
    verbatim: int


@dataclass
class Outcome:
    """What one system did with one session in one window."""

    group: str
    """The recordings that the session belongs to, and how they were joined."""
    session: str
    window: int
    system: str
    requests: int = 0
    refused: int = 0
    waited: int = 0
    """Requests whose answer came after a summary that was asked for on their behalf."""
    asked: list[Asked] = field(default_factory=list)
    """At each of the points; the last is the session's end."""
    side_queries: int = 0
    tokens: int = 0
    """All that was read, and what side-queries wrote."""
    billed: float = 0.0
    """The same, with what a prefix cache serves at a tenth."""
    bill: Bill = field(default_factory=Bill)
    """The parts of what is billed."""
    orphans: int = 0
    """Calls without a result and results without a call in the prompts that the model got."""
    refusals: dict[str, int] = field(default_factory=dict)
    """The refused requests by status and code, where the sender knows them."""
    last_tokens: int = 0


async def replay(
    session: Session, group: str, window: int, system: System, folder: Path
) -> Outcome:
    """Send the requests of a session one after the other, and ask at the points.

    A history only grows: after some refusals in a row, the rest counts as refused.
    """
    outcome = Outcome(group, session.name, window, system.name)
    evidence = Evidence(session.texts)
    requests = list(session.requests())
    pauses = [int(len(requests) * point) - 1 for point in POINTS]
    outcome.requests = len(requests)
    refusals = 0
    async with system.open(Setting(session.options, window, folder)) as sender:
        for number, history in enumerate(requests):
            prompt = None
            if refusals < REFUSALS_TO_GIVE_UP:
                prompt = await _sent(sender, session, history, outcome)
            refusals = 0 if prompt else refusals + 1
            outcome.refused += prompt is None
            outcome.last_tokens = len(prompt.tokens) if prompt else 0
            for _ in range(pauses.count(number)):
                outcome.asked.append(_ask(session, evidence, len(history), prompt))
        _add_up(outcome, sender.calls)
        outcome.refusals = dict(getattr(sender, "refusals", {}))
    return outcome


async def _sent(
    sender: Sender, session: Session, history: list[Json], outcome: Outcome
) -> Prompt | None:
    """Send one request; where there is a model, it answers with what was recorded."""
    model = getattr(sender, "model", None)
    if model is not None:
        model.reply = _recorded(session, len(history))
        model.has_chat.clear()
    before = len(sender.calls)
    prompt = await sender.send(history)
    if model is not None and model.error is not None:
        raise RuntimeError("the scripted model failed") from model.error
    outcome.waited += has_waited(sender.calls[before:])
    return prompt


def has_waited(calls: Sequence[Call]) -> bool:
    """Tell whether a side-query was answered before the chat request that it was made for."""
    chats = [index for index, call in enumerate(calls) if not call.is_side_query]
    return bool(calls) and calls[0].is_side_query and (not chats or chats[0] > 0)


def said_in(prompt: Prompt | None) -> str:
    """Return all that a prompt's messages say and call, without the tools' definitions."""
    return "\n".join(map(rendered, prompt.messages)) if prompt else ""


def _recorded(session: Session, index: int) -> str:
    answer = session.messages[index] if index < len(session.messages) else {}
    return text_of(answer) or "Well."


def _ask(session: Session, evidence: Evidence, messages: int, prompt: Prompt | None) -> Asked:
    questions = session.questions_about(messages)
    shown = said_in(prompt)
    known, verbatim = evidence.answered(questions, shown), evidence.verbatim(questions, shown)
    return Asked(len(questions), known, verbatim)


def _add_up(outcome: Outcome, calls: Sequence[Call]) -> None:
    side = [call for call in calls if call.is_side_query]
    outcome.side_queries = len(side)
    outcome.tokens = sum(call.sent for call in calls) + sum(call.written for call in side)
    outcome.billed = price(list(calls))
    outcome.bill = bill_of(calls)
    outcome.orphans = sum(call.broken_pairs for call in calls)
