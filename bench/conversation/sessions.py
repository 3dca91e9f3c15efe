"""Sessions that are replayed: a coding agent's and a chat's, with needles planted in them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bench.conversation.needles import Needle, Source
from bench.conversation.texts import Texts
from bench.conversation.toolbox import TOOLS, call_and_result

Json = dict[str, Any]

MODEL = "scripted-model"
STEPS_PER_TURN = 14
_RULES = (
    "Never rename {key}, other teams import it.",
    "Always run the checks with the profile {key}.",
    "Please do not touch the branch {key} at all.",
    "From now on every new table must carry the prefix {key}.",
)
_FACTS = (
    "The customer who reported it is known as {key}.",
    "Our staging host is called {key}.",
    "The deadline is tied to the release {key}.",
    "The old job was named {key} before the move.",
)


@dataclass(frozen=True, slots=True)
class Size:
    """A window, and how long the sessions are that press against it."""

    window: int
    steps: int
    turns: int
    result_words: int
    max_tokens: int


SIZES = (
    Size(16_384, steps=150, turns=90, result_words=220, max_tokens=2_048),
    Size(32_768, steps=200, turns=130, result_words=340, max_tokens=4_096),
    Size(131_072, steps=280, turns=320, result_words=600, max_tokens=8_192),
)
QUICK = (Size(16_384, steps=70, turns=50, result_words=220, max_tokens=2_048),)


@dataclass
class Session:
    """A whole history; a request is sent wherever the assistant is to speak."""

    kind: str
    size: Size
    tools: list[Json]
    messages: list[Json] = field(default_factory=list)
    needles: list[Needle] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The session's name in tables."""
        return f"{self.kind}, {self.size.window // 1024}k"

    def requests(self) -> Iterator[Json]:
        """Yield each request with the history before the assistant's next message."""
        for index, message in enumerate(self.messages):
            if message["role"] == "assistant":
                yield self._request(self.messages[:index])
        yield self._request(self.messages)

    def say(self, role: str, content: str, **more: Any) -> None:
        """Append a message."""
        self.messages.append({"role": role, "content": content, **more})

    def plant(self, key: str, source: Source) -> None:
        """Note a needle in the next message."""
        self.needles.append(Needle(key, len(self.messages), source))

    def _request(self, messages: list[Json]) -> Json:
        beside = {"tools": self.tools} if self.tools else {}
        asked = {"model": MODEL, "messages": messages, "max_tokens": self.size.max_tokens}
        return asked | beside


def agent_session(size: Size, seed: int) -> Session:
    """Return a coding agent's run: a few requests of its user, many steps for each."""
    texts = Texts(f"agent {size.window} {seed}")
    session = Session("agent", size, TOOLS)
    session.say("system", _agent_instructions(texts))
    for step in range(size.steps):
        if step % STEPS_PER_TURN == 0:
            if step:
                session.say("assistant", f"Done with {texts.path()}. {texts.prose(60)}")
            _user_speaks(session, texts, words=60)
        _step(session, texts, step)
    session.say("assistant", f"All of it is done. {texts.prose(50)}")
    session.say("user", "Before we end: which rules and facts did I give you, and what was found?")
    return session


def chat_session(size: Size, seed: int) -> Session:
    """Return a chat: questions of all lengths and long answers."""
    texts = Texts(f"chat {size.window} {seed}")
    session = Session("chat", size, [])
    session.say("system", f"You are a careful assistant. {texts.prose(120)}")
    for turn in range(size.turns):
        if turn % 3 == 0:
            _user_speaks(session, texts, words=texts.random.choice((40, 80, 300)))
        else:
            session.say("user", f"{texts.prose(texts.random.choice((20, 60, 150)))} Why is that?")
        session.say("assistant", texts.prose(texts.random.choice((150, 350, 700))))
    session.say("user", "Please repeat everything that I told you to keep in mind.")
    return session


def _user_speaks(session: Session, texts: Texts, words: int) -> None:
    """Ask for something; a rule or a fact stands first, in the middle or at the end of it."""
    key = texts.key("u")
    said = texts.random.choice(_RULES + _FACTS).format(key=key)
    parts = [texts.prose(words // 2), f"Please look into {texts.path()} next.", texts.prose(words)]
    parts.insert(texts.random.randrange(len(parts) + 1), said)
    session.plant(key, "user")
    session.say("user", " ".join(parts))


def _step(session: Session, texts: Texts, step: int) -> None:
    """Call a tool; every seventh result has something that the assistant tells at once."""
    call, result = call_and_result(texts, step, session.size.result_words)
    session.say("assistant", texts.sentence(12), tool_calls=[call])
    found = step % 7 == 3
    key = texts.key("f")
    if found:
        lines = result.splitlines()
        lines.insert(texts.random.randrange(len(lines) + 1), f"ERROR unexpected state {key} seen")
        result = "\n".join(lines)
        session.plant(key, "found")
    session.say("tool", result, tool_call_id=call["id"])
    if found:
        follow, next_result = call_and_result(texts, step + 10_000, session.size.result_words // 3)
        session.say("assistant", f"The cause is {key}. {texts.sentence()}", tool_calls=[follow])
        session.say("tool", next_result, tool_call_id=follow["id"])


def _agent_instructions(texts: Texts) -> str:
    """Return a coding agent's system prompt, about 3,000 tokens."""
    parts = ["You are a coding agent. Work in small steps and call tools."]
    parts += [f"## Rule {number}\n{texts.prose(95)}" for number in range(1, 25)]
    return "\n\n".join(parts)


def sessions(sizes: tuple[Size, ...], seed: int) -> list[Session]:
    """Return both kinds at every size."""
    return [make(size, seed) for size in sizes for make in (agent_session, chat_session)]
