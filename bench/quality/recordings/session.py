"""A recorded conversation as a client would send it, with questions about it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from bench.conversation.prompt import Json

CLOSING = "Do you remember what we talked about?"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the ids of the texts that must be known to answer it."""

    text: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Session:
    """The messages of a conversation, its instructions first, and what is asked about them."""

    name: str
    messages: list[Json]
    texts: dict[str, str]
    """What was said or done, by its id."""
    message_of: dict[str, int]
    """The index of the message in which each text stands."""
    questions: list[Question]
    tools: list[Json] = field(default_factory=list)

    @property
    def options(self) -> Json:
        """The fields of its requests beside model and messages."""
        return {"tools": self.tools} if self.tools else {}

    def requests(self) -> Iterator[list[Json]]:
        """Yield the messages before each answer, and all of them at the end."""
        for end, message in enumerate(self.messages):
            if message["role"] == "assistant":
                yield self.messages[:end]
        yield self.messages

    def questions_about(self, messages: int) -> list[Question]:
        """Return the questions whose evidence is in the first so many messages."""
        return [
            question
            for question in self.questions
            if all(self.message_of[text] < messages for text in question.evidence)
        ]


def joined(sessions: Sequence[Session]) -> Session:
    """Return several conversations as one, one after the other, with the questions of all."""
    if len(sessions) == 1:
        return sessions[0]
    systems = dict.fromkeys(session.messages[0]["content"] for session in sessions)
    messages: list[Json] = [{"role": "system", "content": "\n".join(systems)}]
    texts: dict[str, str] = {}
    message_of: dict[str, int] = {}
    questions: list[Question] = []
    for number, session in enumerate(sessions, 1):
        moved = len(messages) - 1
        said = _without_closing(session.messages)[1:]
        messages += [_with_own_ids(message, number) for message in said]
        texts |= {f"{number}/{key}": text for key, text in session.texts.items()}
        message_of |= {f"{number}/{key}": at + moved for key, at in session.message_of.items()}
        questions += [
            Question(it.text, tuple(f"{number}/{key}" for key in it.evidence))
            for it in session.questions
        ]
    closed(messages)
    tools = {tool["function"]["name"]: tool for it in sessions for tool in it.tools}
    name = " + ".join(session.name for session in sessions)
    return Session(name, messages, texts, message_of, questions, list(tools.values()))


def in_groups(sessions: Sequence[Session], size: int) -> list[Session]:
    """Return the conversations joined by so many; too few at the end are left out.

    Each gets a number: a file may have several recordings of one task.
    """
    starts = range(0, len(sessions) - size + 1, size)
    found = [joined(sessions[start : start + size]) for start in starts]
    return [replace(it, name=f"{number}: {it.name}") for number, it in enumerate(found, 1)]


def closed(messages: list[Json]) -> None:
    """End the messages with one of the user, who asks at the end."""
    if messages[-1]["role"] != "user":
        messages.append({"role": "user", "content": CLOSING})


def _without_closing(messages: list[Json]) -> list[Json]:
    return messages[:-1] if messages[-1].get("content") == CLOSING else messages


def _with_own_ids(message: Json, number: int) -> Json:
    """Return a message whose calls have other ids than those of the other conversations."""
    if calls := message.get("tool_calls"):
        return {
            **message,
            "tool_calls": [{**call, "id": f"{number}-{call['id']}"} for call in calls],
        }
    if "tool_call_id" in message:
        return {**message, "tool_call_id": f"{number}-{message['tool_call_id']}"}
    return message
