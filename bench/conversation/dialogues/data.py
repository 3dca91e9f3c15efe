"""Recorded dialogues with questions about them, read as the chat that a client would send."""

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bench.conversation.prompt import Json
from bench.conversation.sessions import MODEL

CLOSING = "Do you remember what we talked about?"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the turns that must be known to answer it."""

    text: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Dialogue:
    """Two people's talk: the one who speaks first is the user, the other one the assistant."""

    name: str
    messages: list[Json]
    turns: dict[str, str]
    """What was said in each turn, by the turn's id."""
    message_of: dict[str, int]
    """The index of the message in which each turn stands."""
    questions: list[Question]

    def requests(self) -> list[Json]:
        """Return a request for each message of the assistant, and one that asks at the end."""
        ends = [at for at, message in enumerate(self.messages) if message["role"] == "assistant"]
        return [
            {"model": MODEL, "messages": self.messages[:end]} for end in (*ends, len(self.messages))
        ]

    def questions_about(self, messages: int) -> list[Question]:
        """Return the questions whose evidence is in the first so many messages."""
        return [
            question
            for question in self.questions
            if all(self.message_of[turn] < messages for turn in question.evidence)
        ]


def read(path: Path) -> list[Dialogue]:
    """Return the dialogues of a file, gzipped or not."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return [dialogue(fields) for fields in orjson.loads(content)]


def dialogue(fields: dict[str, Any]) -> Dialogue:
    """Return a dialogue; turns of one speaker in a row become one message."""
    talks = [talk for talk in fields["sessions"] if talk["turns"]]
    first = talks[0]["turns"][0]["speaker"]
    others = [speaker for speaker in fields["speakers"] if speaker != first]
    name = f"{first} and {' and '.join(others)}"
    system = f"You are {' and '.join(others)}, and talk with {first}, whom you know well."
    messages: list[Json] = [{"role": "system", "content": system}]
    turns, message_of = {}, {}
    for talk in talks:
        dated = f"[{talk['date']}] " if talk.get("date") else ""
        for turn in talk["turns"]:
            role = "user" if turn["speaker"] == first else "assistant"
            _say(messages, role, dated + turn["text"])
            turns[turn["id"]], message_of[turn["id"]] = turn["text"], len(messages) - 1
            dated = ""
    if messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": CLOSING})
    return Dialogue(name, messages, turns, message_of, _questions(fields["qa"], turns))


def _say(messages: list[Json], role: str, text: str) -> None:
    if messages[-1]["role"] == role:
        messages[-1]["content"] += f"\n{text}"
    else:
        messages.append({"role": role, "content": text})


def _questions(given: list[dict[str, Any]], turns: dict[str, str]) -> list[Question]:
    """Return the questions with evidence that is in the dialogue."""
    found = (Question(it["question"], tuple(it.get("evidence") or ())) for it in given)
    return [it for it in found if it.evidence and all(turn in turns for turn in it.evidence)]
