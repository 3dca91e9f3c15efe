"""Recorded dialogues with questions about them, in LoCoMo's format."""

from typing import Any

from bench.conversation.prompt import Json
from bench.quality.recordings.session import Question, Session, closed


def dialogue(fields: dict[str, Any]) -> Session:
    """Return two people's talk: the one who speaks first is the user, the other the assistant.

    Turns of one speaker in a row become one message.
    """
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
    closed(messages)
    return Session(name, messages, turns, message_of, _questions(fields["qa"], turns))


def _say(messages: list[Json], role: str, text: str) -> None:
    if messages[-1]["role"] == role:
        messages[-1]["content"] += f"\n{text}"
    else:
        messages.append({"role": role, "content": text})


def _questions(given: list[dict[str, Any]], turns: dict[str, str]) -> list[Question]:
    """Return the questions with evidence that is in the dialogue."""
    found = (Question(it["question"], tuple(it.get("evidence") or ())) for it in given)
    return [it for it in found if it.evidence and all(turn in turns for turn in it.evidence)]
