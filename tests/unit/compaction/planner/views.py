"""Conversations as the planner sees them: a token is a character, a medium has a thousand."""

from collections.abc import Callable
from itertools import islice, product
from string import ascii_lowercase
from typing import Any

from hypothesis import strategies as st

from chat_proxy.chat.conversation import Conversation
from chat_proxy.compaction.ageing.policy import AgeingPolicy
from chat_proxy.compaction.ageing.treatments import Treatments
from chat_proxy.compaction.budget import Budget, BudgetPolicy
from chat_proxy.compaction.planner.view import View
from tests.unit.chat.shapes import Fields, conversation, image, says, system, text, user
from tests.unit.compaction.examples import called, tool_step

MEDIUM_TOKENS = 1_000
MESSAGE_TOKENS = 4
BUDGET = BudgetPolicy(threshold=0.8, prepare=0.65)
AGEING = AgeingPolicy(
    enabled=True,
    protect_tokens=0,
    minimum_tokens=0,
    protect_turns=0,
    protected_tools=frozenset({"skill"}),
    keep_results=0,
    keep_user_media=1,
    keep_tool_media=1,
    old_max_bytes=3_000,
    is_protect_literal=True,
    is_minimum_literal=True,
)

Count = Callable[[str], int]


def quarter(words: str) -> int:
    """Count four characters as a token, as English has about."""
    return (len(words) + 3) // 4


def size_of(given: Conversation, index: int, count: Count) -> int:
    """Return the tokens of one message."""
    message = given.messages[index]
    media = MEDIUM_TOKENS * len(list(message.media()))
    return MESSAGE_TOKENS + media + sum(count(words) for _, words in message.pieces())


def view_of(
    *messages: Fields,
    window: int = 100_000,
    beside: int = 0,
    fields: dict[str, Any] | None = None,
    folded: int | None = None,
    fold_tokens: int = 0,
    treatments: Treatments | None = None,
    count: Count = len,
    given: Conversation | None = None,
) -> View:
    """Return the view of a conversation in a window."""
    given = given or conversation(*messages)
    return View(
        given,
        [size_of(given, index, count) for index in range(len(given))],
        beside,
        Budget.of(window, fields or {}, BUDGET),
        given.instructions if folded is None else folded,
        fold_tokens,
        treatments or Treatments(),
        count,
        lambda index: [MEDIUM_TOKENS for _ in given.messages[index].media()],
    )


def words(size: int, topic: int = 0) -> str:
    """Return so many characters of text, in lines that all say something else."""
    names = product(ascii_lowercase, repeat=4)
    lines = (f"many words in line {topic}{''.join(name)}\n" for name in names)
    return "".join(islice(lines, size // 20 + 1))[:size]


def read_step(name: str, size: int, tool: str = "read_file") -> list[Fields]:
    """Return a call that reads a file of its own, and its result of this size."""
    return tool_step(name, tool, words(size), path=f"{name}.py")


def talk(*sizes: int) -> list[Fields]:
    """Return turns with a question and an answer, each of this size, none like another."""
    texts = (words(size, number) for number, size in enumerate(it for it in sizes for _ in "qa"))
    return [says(text) if index % 2 else user(text) for index, text in enumerate(texts)]


def run(*sizes: int) -> list[Fields]:
    """Return a question and steps that read files of these sizes."""
    return [
        user("Fix it."),
        *(message for n, size in enumerate(sizes) for message in read_step(f"f{n}", size)),
    ]


@st.composite
def _steps(draw: st.DrawFn, name: str, sizes: st.SearchStrategy[int]) -> list[Fields]:
    """Return a step: a call, its results, media or words beside it."""
    tool = draw(st.sampled_from(["bash", "read_file", "skill", "shot"]))
    path = draw(st.sampled_from([f"{name}.py", "same.py"]))
    result: Any = words(draw(sizes))
    if tool == "shot":
        result = [text(result), image()]
    if draw(st.integers(0, 4)) == 0:
        return [says(words(draw(sizes)))]
    if draw(st.integers(0, 5)) == 0:
        content = words(draw(sizes))
        return [called(name, "write_file", path=path, content=content), *_results(name, "ok")]
    return tool_step(name, tool, result, path=path)


def _results(name: str, content: Any) -> list[Fields]:
    return tool_step(name, "tool", content)[1:]


@st.composite
def _turns(draw: st.DrawFn, name: str, sizes: st.SearchStrategy[int], most: int) -> list[Fields]:
    asked: Any = words(draw(sizes))
    if draw(st.integers(0, 5)) == 0:
        asked = [text(asked), image()]
    steps = [
        message
        for number in range(draw(st.integers(0, most)))
        for message in draw(_steps(f"{name}.{number}", sizes))
    ]
    return [user(asked), *steps]


@st.composite
def histories(draw: st.DrawFn, window: int) -> list[Fields]:
    """Return a conversation whose parts are small, usual, or as large as the window."""
    sizes = st.one_of(
        st.integers(1, 200), st.integers(200, max(201, window // 10)), st.integers(1, window)
    )
    instructions = [system(words(draw(sizes)))] if draw(st.booleans()) else []
    turns = [
        message
        for number in range(draw(st.integers(0, 6)))
        for message in [*draw(_turns(f"t{number}", sizes, 3)), says(words(draw(sizes)))]
    ]
    interrupts = draw(st.sampled_from([[], [], [user("Wait.")], [user("Wait."), user("Stop!")]]))
    return [*instructions, *turns, *draw(_turns("now", sizes, 6)), *interrupts]
