"""The true histories: a chat of 60 turns and a coding agent's run of 54 requests."""

from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Literal

from bench.clients.project import Project
from bench.conversation.prompt import Json, Prompt
from bench.conversation.sessions import MODEL
from bench.conversation.texts import Texts
from bench.conversation.toolbox import TOOLS

Kind = Literal["chat", "agent"]
Messages = list[Json]

CHAT_TURNS = 60
STEPS_OF_TURNS = (8, 4, 6, 3, 7, 5, 4, 5, 3)
"""Tool steps in each of the agent's turns; with the answers that end them, 54 requests."""
ROOM: dict[Kind, int] = {"chat": 12_000, "agent": 24_000}
_QUESTIONS = (
    "What does that mean for {path}?",
    "Can you explain why {noun} comes before {other} there?",
    "And if we drop the {noun} instead?",
    "Please compare both ways for {path}.",
    "How would you test that?",
)


@dataclass(frozen=True)
class Client:
    """What a client knows: its history, its tools, and the window of its model.

    The window has this room beside the fixed part, which is the system prompt and the tools.
    """

    kind: Kind
    messages: Messages
    tools: list[Json]

    @cached_property
    def window(self) -> int:
        """The tokens of the fixed part and the room beside it."""
        return len(Prompt(self.request(self.messages[:1])).tokens) + ROOM[self.kind]

    def request(self, messages: Messages) -> Json:
        """Return the body of a request; no answer length is asked for, as chats do."""
        beside = {"tools": self.tools} if self.tools else {}
        return {"model": MODEL, "messages": messages, **beside}


def client_of(kind: Kind, seed: int, share: float = 1.0) -> Client:
    """Return a client with its whole history, or the first share of it."""
    if kind == "chat":
        return Client(kind, chat_history(seed, round(CHAT_TURNS * share)), [])
    turns = STEPS_OF_TURNS[: round(len(STEPS_OF_TURNS) * share)]
    return Client(kind, agent_history(f"agent {seed}", turns), TOOLS)


def prefixes(messages: Messages) -> list[Messages]:
    """Return the history before each of the assistant's messages: what is true at each request."""
    return [messages[:at] for at, it in enumerate(messages) if it["role"] == "assistant"]


def chat_history(seed: int, turns: int) -> Messages:
    """Return questions of some lengths and the longer answers to them, each with a fact."""
    texts = Texts(f"chat client {seed}")
    messages = [{"role": "system", "content": _instructions("You are a helpful assistant.", 8)}]
    for turn in range(turns):
        question = texts.random.choice(_QUESTIONS).format(
            path=texts.path(), noun=texts.key("name"), other=texts.key("name")
        )
        asked = f"{texts.prose(texts.random.choice((40, 120, 250)))} {question}"
        fact = f"Turn {turn}: {texts.key('fact')} is {texts.random.randint(2, 9_000)} ms."
        told = texts.prose(texts.random.choice((280, 500, 720)))
        messages.append({"role": "user", "content": asked})
        messages.append({"role": "assistant", "content": f"{fact} {told}"})
    return messages


def agent_history(seed: str, steps_of_turns: tuple[int, ...]) -> Messages:
    """Return a coding agent's run: a task, steps, an answer, the next task."""
    texts = Texts(seed)
    project = Project(texts)
    messages: Messages = [
        {"role": "system", "content": _instructions("You are a coding agent with tools.", 36)}
    ]
    for turn, steps in enumerate(steps_of_turns):
        task = f"Task {turn + 1}: {texts.prose(40)} Start with {project.path()}."
        messages.append({"role": "user", "content": f"{task} Never rename {texts.key('api')}."})
        for _ in range(steps):
            messages += project.step()
        done = f"Task {turn + 1} is done: {texts.key('change')}. {texts.prose(50)}"
        messages.append({"role": "assistant", "content": done})
    return messages


def _instructions(first: str, rules: int) -> str:
    """Return a system prompt; it is the same for every seed, as a client's is for every run."""
    texts = Texts(f"instructions {first}")
    parts = [f"## Rule {number}\n{texts.prose(95)}" for number in range(1, rules + 1)]
    return "\n\n".join([first, *parts])


def seeded(*names: object) -> Random:
    """Return a source of random numbers that is the same for the same names."""
    return Random(" ".join(map(str, names)))
