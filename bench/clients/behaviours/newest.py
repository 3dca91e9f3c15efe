"""Clients that add something to the newest messages, which is gone or different later."""

import json

from bench.clients.behaviours.front import environment
from bench.clients.histories import Messages, seeded
from bench.conversation.loss.script import picture
from bench.conversation.prompt import Json
from bench.conversation.texts import Texts

IMAGE_EVERY_TURNS = 5
IMAGE_KEPT_TURNS = 3
_TASK = "### Task:\nRespond to the user query using the provided context."


def environment_newest(messages: Messages, number: int) -> Messages:
    """Return the messages with environment details at the end of the newest user message."""
    at = _last(messages, "user")
    content = f"{messages[at]['content']}\n\n{environment(number)}"
    return _replaced(messages, at, {**messages[at], "content": content})


def cline(messages: Messages, number: int) -> Messages:
    """Return the messages as Cline writes them: calls as text, results as user messages.

    The newest user message has environment details at its end.
    """
    return environment_newest([_as_text(message) for message in messages], number)


def _as_text(message: Json) -> Json:
    if message["role"] == "tool":
        return {"role": "user", "content": f"[Result of the tool]\n{message['content']}"}
    if message.get("tool_calls"):
        called = "\n".join(map(_call_as_text, message["tool_calls"]))
        text = f"{message['content']}\n\n{called}".strip()
        return {"role": "assistant", "content": text}
    return message


def _call_as_text(call: Json) -> str:
    function = call["function"]
    arguments = json.loads(function["arguments"]).items()
    inner = "\n".join(f"<{name}>{value}</{name}>" for name, value in arguments)
    return f"<{function['name']}>\n{inner}\n</{function['name']}>"


def retrieved_text(messages: Messages, number: int) -> Messages:
    """Return the messages with found documents before the newest question, as Open WebUI does."""
    at = _last(messages, "user")
    texts = Texts(f"documents {number}")
    found = "\n".join(
        f'<source id="{it}" name="{texts.path()}">{texts.prose(60)}</source>' for it in (1, 2, 3)
    )
    content = f"{_TASK}\n\n<context>\n{found}\n</context>\n\n{messages[at]['content']}"
    return _replaced(messages, at, {**messages[at], "content": content})


def ephemeral_user_message(messages: Messages, number: int) -> Messages:
    """Return the messages and a last one of the user that is sent with this request only."""
    texts = Texts(f"open points {number}")
    points = "\n".join(f"{it}. [ ] {texts.sentence(7)}" for it in (1, 2, 3))
    last = {"role": "user", "content": f"These points of your list are open:\n{points}\nGo on."}
    return [*messages, last]


def reminder(messages: Messages, number: int) -> Messages:
    """Return the messages with a reminder at the end of the newest tool result."""
    at = _last(messages, "tool")
    if at < 0:
        return messages
    said = Texts(f"reminder {number}").sentence(24)
    content = f"{messages[at]['content']}\n\n<system-reminder>\n{said}\n</system-reminder>"
    return _replaced(messages, at, {**messages[at], "content": content})


def moving_cache_control(messages: Messages, number: int) -> Messages:  # noqa: ARG001
    """Return the messages with cache marks on the instructions and the last two messages.

    A message with a mark has its text as a part, one without as a string.
    """
    marked = {0, len(messages) - 2, len(messages) - 1}
    return [_marked(it) if at in marked else it for at, it in enumerate(messages)]


def _marked(message: Json) -> Json:
    mark = {"cache_control": {"type": "ephemeral"}}
    if not message.get("content"):
        return message
    return {**message, "content": [{"type": "text", "text": message["content"], **mark}]}


def newest_reasoning(messages: Messages, number: int) -> Messages:
    """Return the messages with the reasoning of the newest step, and of no other."""
    at = _last(messages, "assistant")
    if at < 0:
        return messages
    thought = Texts(f"thought {number}").prose(60)
    return _replaced(messages, at, {**messages[at], "reasoning_content": thought})


def empty_contents(messages: Messages, number: int) -> Messages:
    """Return the messages with what says nothing as null, empty or missing, at random."""
    return [_emptied(it, seeded(number, at).randrange(3)) for at, it in enumerate(messages)]


def _emptied(message: Json, form: int) -> Json:
    if message.get("content") or not message.get("tool_calls"):
        return message
    others = {name: value for name, value in message.items() if name != "content"}
    return {**others, **({"content": None}, {"content": ""}, {})[form]}


def images_dropped(messages: Messages, number: int) -> Messages:
    """Return the messages with an image in every fifth question until it is some turns old."""
    users = [at for at, it in enumerate(messages) if it["role"] == "user"]
    shown = list(messages)
    for turn in range(max(0, number + 1 - IMAGE_KEPT_TURNS), number + 1):
        at = users[turn - number - 1] if number - turn < len(users) else None
        if turn % IMAGE_EVERY_TURNS == 0 and at is not None:
            shown[at] = _with_image(messages[at], turn)
    return shown


def _with_image(message: Json, turn: int) -> Json:
    text = {"type": "text", "text": message["content"]}
    return {
        **message,
        "content": [text, {"type": "image_url", "image_url": {"url": picture(turn)}}],
    }


def _last(messages: Messages, role: str) -> int:
    return max((at for at, it in enumerate(messages) if it["role"] == role), default=-1)


def _replaced(messages: Messages, at: int, message: Json) -> Messages:
    return [*messages[:at], message, *messages[at + 1 :]]
