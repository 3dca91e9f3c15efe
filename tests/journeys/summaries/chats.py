"""Conversations of any form and size, told by a few numbers so that hypothesis finds small ones."""

from collections.abc import Callable
from itertools import count
from typing import Any

from hypothesis import strategies as st

from tests.journeys.trimming.growing import output, step
from tests.unit.chat.shapes import Fields, developer, image, says, system, text, user

Say = Callable[[int], str]

SIZES = st.sampled_from([1, 20, 150, 400, 900])
FORMS = st.sampled_from(["text", "text", "parts", "several parts"])


class Chat(list[Fields]):
    """Messages that are shown by role and length: a failure must be readable."""

    def __repr__(self) -> str:
        return " ".join(f"{it['role']}:{len(str(it['content']))}" for it in self)


def words() -> Say:
    """Return a source of texts of about so many tokens, no two alike."""
    numbers = count()
    return lambda tokens: output(tokens, f"text {next(numbers)}")


def content(said: str, form: str) -> Any:
    """Return a text as clients write it."""
    if form == "text":
        return said
    half = len(said) // 2
    pieces = [said[:half], said[half:]] if form == "several parts" else [said]
    return [text(piece) for piece in pieces]


@st.composite
def steps(draw: st.DrawFn, say: Say) -> list[Fields]:
    """Return a call of one or more tools, perhaps with a thought, and all results."""
    sizes = draw(st.lists(SIZES, min_size=1, max_size=3))
    results = [content(say(size), draw(FORMS)) for size in sizes]
    caller, *told = step(say(1), *results)
    if draw(st.booleans()):
        caller["reasoning_content"] = say(40)
    return [caller, *draw(st.permutations(told))]


@st.composite
def questions(draw: st.DrawFn, say: Say, *, pictures: bool = False) -> Fields:
    """Return a user's message."""
    said = say(draw(SIZES))
    if pictures and draw(st.integers(0, 4)) == 0:
        return user([text(said), image()])
    return user(content(said, draw(FORMS)))


@st.composite
def turns(draw: st.DrawFn, say: Say, *, pictures: bool = False) -> list[Fields]:
    """Return a question, some steps and an answer."""
    told = [draw(questions(say, pictures=pictures))]
    for _ in range(draw(st.integers(0, 3))):
        told += draw(steps(say))
    more = {"reasoning_content": say(40)} if draw(st.booleans()) else {}
    return [*told, says(content(say(draw(SIZES)), draw(FORMS)), **more)]


def instructions() -> st.SearchStrategy[list[Fields]]:
    """Return what may lead a conversation."""
    return st.sampled_from(
        [
            [],
            [system("Be brief.")],
            [developer("Be brief.")],
            [system([text("Be brief."), text("Be kind.")]), developer("Use tools.")],
        ]
    )


@st.composite
def strict_chats(draw: st.DrawFn, *, pictures: bool = False) -> Chat:
    """Return a conversation that the strictest template takes; some are one agent's long run."""
    say = words()
    told = Chat(draw(instructions()))
    for _ in range(draw(st.integers(0, 6))):
        told += draw(turns(say, pictures=pictures))
    told.append(draw(questions(say, pictures=pictures)))
    for _ in range(draw(st.integers(0, 8))):
        told += draw(steps(say))
    return told


@st.composite
def loose_chats(draw: st.DrawFn) -> Chat:
    """Return one that only lenient templates take: users in a row, late systems, no first user."""
    say = words()
    told = Chat(draw(instructions()))
    for kind in draw(st.lists(st.sampled_from(["turn", "user", "system", "says", "steps"]))):
        if kind == "turn":
            told += draw(turns(say))
        elif kind == "user":
            told.append(draw(questions(say)))
        elif kind == "system":
            told.append(draw(st.sampled_from([system, developer]))(say(draw(SIZES))))
        elif kind == "says":
            told.append(says(say(draw(SIZES))))
        else:
            told += draw(steps(say))
    told.append(draw(questions(say)))
    return told
