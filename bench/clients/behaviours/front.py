"""Clients that change the front of their prompt: the system prompt or the first user message."""

from datetime import UTC, datetime, timedelta

from bench.clients.histories import Messages, seeded
from bench.conversation.prompt import Json
from bench.conversation.texts import Texts

SECONDS_BETWEEN_REQUESTS = 47
MODE_CHANGES_EVERY = 5
_START = datetime(2031, 3, 4, 9, 0, 12, tzinfo=UTC)


def clock_with_seconds(messages: Messages, number: int) -> Messages:
    """Return the messages with the time of the request at the system prompt's end."""
    return _instructed(messages, f"Current time: {_time(number):%Y-%m-%d %H:%M:%S}")


def clock_with_minutes(messages: Messages, number: int) -> Messages:
    """Return the messages with the time to the minute at the system prompt's end."""
    return _instructed(messages, f"Current time: {_time(number):%Y-%m-%d %H:%M}")


def random_id(messages: Messages, number: int) -> Messages:
    """Return the messages with an id of the request at the system prompt's end."""
    return _instructed(messages, f"Request: {seeded('id', number).randbytes(16).hex()}")


def plan_and_act(messages: Messages, number: int) -> Messages:
    """Return the messages with the system prompt of the mode, which changes now and then."""
    mode = number // MODE_CHANGES_EVERY % 2
    if not mode:
        return messages
    texts = Texts("plan mode")
    instructions = f"You are in PLAN MODE: change nothing.\n\n{texts.prose(2_000)}"
    return [{**messages[0], "content": instructions}, *messages[1:]]


def memories(messages: Messages, number: int) -> Messages:
    """Return the messages with a second system message: the memories that fit the question."""
    random = seeded("memories", number)
    known = [f"- {Texts(f'memory {it}').sentence(12)}" for it in random.sample(range(40), 6)]
    second = {"role": "system", "content": "\n".join(["What you remember of the user:", *known])}
    return [messages[0], second, *messages[1:]]


def git_status(messages: Messages, number: int) -> Messages:
    """Return the messages with the state of the work tree in the first user message, tagged."""
    return _first_user(messages, f"<git_status>\n{_work_tree(number)}\n</git_status>")


def git_status_without_tag(messages: Messages, number: int) -> Messages:
    """Return the messages with the state of the work tree in the first user message."""
    return _first_user(messages, f"gitStatus: as of this request.\n{_work_tree(number)}")


def environment_first(messages: Messages, number: int) -> Messages:
    """Return the messages with environment details in the first user message."""
    return _first_user(messages, environment(number))


def environment(number: int) -> str:
    """Return the block that describes the editor at a request, in Cline's form."""
    texts = Texts(f"environment {number}")
    tabs = "\n".join(texts.path() for _ in range(3))
    return (
        f"<environment_details>\n# Visual Studio Code Open Tabs\n{tabs}\n\n# Current Time\n"
        f"{_time(number):%m/%d/%Y, %I:%M:%S %p} (UTC, UTC+0:00)\n\n# Context Window Usage\n"
        f"{9_000 + 310 * number:,} / 128K tokens used\n\n# Current Mode\nACT MODE\n"
        "</environment_details>"
    )


def _work_tree(number: int) -> str:
    texts = Texts(f"work tree {number}")
    changed = "\n".join(f" M {texts.path()}" for _ in range(1 + number % 7))
    return f"Current branch: main\nStatus:\n{changed}"


def _time(number: int) -> datetime:
    return _START + timedelta(seconds=SECONDS_BETWEEN_REQUESTS * number)


def _instructed(messages: Messages, line: str) -> Messages:
    first = messages[0]
    return [{**first, "content": f"{first['content']}\n\n{line}"}, *messages[1:]]


def _first_user(messages: Messages, block: str) -> Messages:
    at = next(index for index, it in enumerate(messages) if it["role"] == "user")
    return [*messages[:at], _with_block(messages[at], block), *messages[at + 1 :]]


def _with_block(message: Json, block: str) -> Json:
    return {**message, "content": f"{message['content']}\n\n{block}"}
