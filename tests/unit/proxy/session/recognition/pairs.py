"""Pairs of histories that differ in one thing, made by chance."""

import json
import random
from collections.abc import Callable
from copy import deepcopy

from tests.unit.chat.shapes import Fields, image, result, says, text, user

_SENTENCE = "the loader reads its table once and keeps every row that a later pass may want"
_WORDS = _SENTENCE.split()

Edit = Callable[[list[Fields], random.Random], None]


def some_words(dice: random.Random, count: int = 20) -> str:
    """Return a sentence of these few words, which other sentences share."""
    return " ".join(dice.choices(_WORDS, k=count))


def some_step(dice: random.Random, number: int) -> list[Fields]:
    """Return one or two calls with their results."""
    ids = [f"call_{number}_{place}" for place in range(dice.choice((1, 1, 2)))]
    made = [
        {
            "id": it,
            "type": "function",
            "function": {
                "name": dice.choice(("read_file", "bash")),
                "arguments": json.dumps({"path": dice.choice(_WORDS), "limit": dice.randrange(9)}),
            },
        }
        for it in ids
    ]
    outputs = [result(it, some_words(dice, dice.choice((5, 60)))) for it in ids]
    return [says(dice.choice((None, "", some_words(dice, 5))), tool_calls=made), *outputs]


def some_history(dice: random.Random) -> list[Fields]:
    """Return a history of some turns, each with an answer, most with calls, some with media."""
    messages: list[Fields] = []
    for number in range(dice.randint(3, 5)):
        words = some_words(dice)
        seen = [text(words), image(f"http://host/{dice.randrange(99)}.png")]
        messages.append(user(seen if dice.random() < 0.4 else words))
        for step in range(dice.choice((0, 1, 1, 2))):
            messages += some_step(dice, 10 * number + step)
        messages.append(says(some_words(dice, 15)))
    return messages


def other_result(messages: list[Fields], dice: random.Random) -> None:
    """Change a word of a result, or make it a longer, shorter or empty one."""
    chosen = _one_of(messages, dice, "tool")
    given = str(chosen["content"])
    others = (_other_word(given, dice), f"{given} more", given[:-3], "", "No such file", "[]")
    chosen["content"] = dice.choice(others)


def other_user_word(messages: list[Fields], dice: random.Random) -> None:
    """Change one word that the user has said."""
    chosen = _one_of(messages, dice, "user")
    if isinstance(chosen["content"], str):
        chosen["content"] = _other_word(chosen["content"], dice)
    else:
        chosen["content"][0]["text"] = _other_word(chosen["content"][0]["text"], dice)


def other_argument(messages: list[Fields], dice: random.Random) -> None:
    """Change one argument of a call."""
    function = _one_of(messages, dice, "calls")["tool_calls"][0]["function"]
    arguments = json.loads(function["arguments"])
    key = dice.choice(list(arguments))
    arguments[key] = f"{arguments[key]}x"
    function["arguments"] = json.dumps(arguments)


def other_assistant_word(messages: list[Fields], dice: random.Random) -> None:
    """Change one word that the model has said."""
    chosen = _one_of(messages, dice, "answer")
    chosen["content"] = _other_word(chosen["content"], dice)


def swapped(messages: list[Fields], dice: random.Random) -> None:
    """Swap two messages."""
    one, other = dice.sample(range(len(messages)), 2)
    messages[one], messages[other] = messages[other], messages[one]


def removed(messages: list[Fields], dice: random.Random) -> None:
    """Remove a message, but not the oldest: a client may drop these."""
    del messages[dice.randrange(1, len(messages))]


def added(messages: list[Fields], dice: random.Random) -> None:
    """Add a message."""
    new = dice.choice((user, says))(some_words(dice))
    messages.insert(dice.randrange(len(messages)), new)


def other_medium(messages: list[Fields], dice: random.Random) -> None:
    """Show another image."""
    chosen = _one_of(messages, dice, "media")
    chosen["content"][1] = image("http://host/another.png")


EDITS: tuple[Edit, ...] = (
    other_result,
    other_user_word,
    other_argument,
    other_assistant_word,
    swapped,
    removed,
    added,
    other_medium,
)


def edited(messages: list[Fields], edit: Edit, dice: random.Random) -> list[Fields] | None:
    """Return a copy with one change; None if there is nothing to change in this way."""
    changed = deepcopy(messages)
    try:
        edit(changed, dice)
    except IndexError:
        return None
    return changed


def with_other_results(messages: list[Fields], dice: random.Random) -> list[Fields]:
    """Return a copy that makes the same calls and gets other results: at least one is another."""
    changed = deepcopy(messages)
    tools = [message for message in changed if message["role"] == "tool"]
    for message in dice.sample(tools, dice.randint(1, len(tools))):
        message["content"] = _other_word(str(message["content"]), dice)
    return changed


def _one_of(messages: list[Fields], dice: random.Random, kind: str) -> Fields:
    return dice.choice([message for message in messages if _is(message, kind)])


def _is(message: Fields, kind: str) -> bool:
    if kind == "calls":
        return "tool_calls" in message
    if kind == "answer":
        return bool(message["role"] == "assistant" and message["content"])
    if kind == "media":
        return message["role"] == "user" and isinstance(message["content"], list)
    return bool(message["role"] == kind)


def _other_word(words: str, dice: random.Random) -> str:
    parts = words.split(" ")
    at = dice.randrange(len(parts))
    parts[at] = f"{parts[at]}s"
    return " ".join(parts)
