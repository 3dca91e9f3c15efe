"""Clients that drop, repeat or change what was said: their requests are no longer one history."""

from collections.abc import Callable

from bench.clients.histories import (
    STEPS_OF_TURNS,
    Client,
    Messages,
    agent_history,
    chat_history,
    prefixes,
)
from bench.conversation.texts import Texts

CHANGES_EVERY_TURNS = 20
TURNS_BACK = 6
REGENERATES_EVERY_TURNS = 6
SUB_AGENTS = 8
_OTHER_SEED = 1_000


def sliding_window(size: int) -> Callable[[Messages, int], Messages]:
    """Return a client that keeps its instructions and its last so many messages."""

    def kept(messages: Messages, number: int) -> Messages:  # noqa: ARG001
        start = max(1, len(messages) - size)
        while messages[start]["role"] != "user":
            start += 1
        return [messages[0], *messages[start:]]

    return kept


def deletes_old_message(messages: Messages, number: int) -> Messages:
    """Return the messages without the answers that the user deleted, some turns after them."""
    deleted = {_answer(turn) for turn in _changed_turns(number)}
    return [message for at, message in enumerate(messages) if at not in deleted]


def edits_old_message(messages: Messages, number: int) -> Messages:
    """Return the messages with the questions that the user edited, some turns after them."""
    edited = {_question(turn) for turn in _changed_turns(number)}
    return [
        {**it, "content": f"{Texts(f'edit {at}').prose(40)} What follows?"} if at in edited else it
        for at, it in enumerate(messages)
    ]


def _changed_turns(number: int) -> list[int]:
    """Return the turns that were changed by a request: one now and then, some turns back."""
    times = range(CHANGES_EVERY_TURNS, number + 1, CHANGES_EVERY_TURNS)
    return [time - TURNS_BACK for time in times]


def regenerates(client: Client) -> list[Messages]:
    """Return the histories of a user who now and then wants another answer than the last.

    The question after the answer was asked already; it is asked again after the other answer.
    """
    true = prefixes(client.messages)
    sends: list[Messages] = []
    for turn, history in enumerate(true):
        sends.append(history)
        if turn % REGENERATES_EVERY_TURNS == REGENERATES_EVERY_TURNS - 1 and turn + 1 < len(true):
            rejected = {"role": "assistant", "content": Texts(f"rejected {turn}").prose(400)}
            sends += [[*history, rejected, true[turn + 1][-1]], history]
    return sends


def branches(client: Client) -> list[Messages]:
    """Return the histories of a chat with a second branch from its middle.

    The first branch is left after a quarter of the chat, and gone on with after the second one.
    """
    true = prefixes(client.messages)
    half, quarter = len(true) // 2, len(true) // 4
    other = chat_history(_OTHER_SEED, half + quarter)
    trunk = client.messages[: _question(half)]
    second = prefixes([*trunk, *other[_question(half) :]])
    return [*true[: half + quarter], *second[half:], *true[half + quarter :]]


def sub_agents(client: Client) -> list[Messages]:
    """Return the histories of eight agents by turns that share instructions and the first task."""
    turns = STEPS_OF_TURNS[: max(1, len(_turns(client)) // 2)]
    runs = [
        prefixes([*client.messages[:2], *agent_history(f"sub-agent {it}", turns)[2:]])
        for it in range(SUB_AGENTS)
    ]
    return [history for histories in zip(*runs, strict=True) for history in histories]


def _turns(client: Client) -> list[int]:
    return [at for at, it in enumerate(client.messages) if it["role"] == "user"]


def _question(turn: int) -> int:
    return 1 + 2 * turn


def _answer(turn: int) -> int:
    return 2 + 2 * turn
