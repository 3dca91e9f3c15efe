"""What the demo model answers: a description of its prompt, a tool call or a summary."""

import textwrap
from collections import Counter
from collections.abc import Iterator

from chat_proxy.demo.model.answers import Choice, calling, saying
from chat_proxy.demo.model.messages import Message, last_of
from chat_proxy.demo.model.request import ChatRequest
from chat_proxy.demo.model.template import PromptSize
from chat_proxy.demo.model.tools import asked_calls, forced_calls
from chat_proxy.demo.summary.transcript import asks_for_summary
from chat_proxy.demo.summary.write import summarise

QUOTE_CHARACTERS = 200
MOST_NAMES = 10


def answer(request: ChatRequest, size: PromptSize, window: int, limit: int) -> tuple[Choice, ...]:
    """Return the choices: a forced tool call, a summary, a requested tool call, or text."""
    if calls := forced_calls(request):
        finish = "stop" if request.tool_choice == "named" else "tool_calls"
        return (calling(calls, finish, limit),) * request.choices
    if asks_for_summary(request.messages):
        return (saying(summarise(request.messages), limit),) * request.choices
    if calls := asked_calls(request):
        return (calling(calls, "tool_calls", limit),) * request.choices
    text = " ".join(sentences(request, size, window))
    return tuple(saying(text + number_of(i, request), limit) for i in range(request.choices))


def number_of(index: int, request: ChatRequest) -> str:
    """Return a sentence that numbers one of several choices."""
    return f" This is answer {index + 1} of {request.choices}." if request.choices > 1 else ""


def sentences(request: ChatRequest, size: PromptSize, window: int) -> Iterator[str]:
    """Yield the sentences that describe the prompt."""
    messages = request.messages
    yield "I am the demo model."
    yield (
        f"I see {numbered(len(messages), 'message')} ({roles(messages)}), "
        f"about {size.total} tokens of my {window}-token window."
    )
    images = [image for message in messages for image in message.images]
    if images:
        yield f"I see {numbered(len(images), 'image')} ({listed(images)})."
    others = [part for message in messages for part in message.other_parts]
    if others:
        yield f"I see {numbered(len(others), 'part')} that I cannot read ({listed(others)})."
    yield from tool_results(messages)
    if request.tools:
        names = [tool.name for tool in request.tools]
        yield f"I may call {listed(names)}: write “call {names[0]}” and I do."
    user_text = quoted(last_of("user", messages).text)
    yield f"You said: {user_text}" if user_text else "You said nothing that I can read."


def tool_results(messages: tuple[Message, ...]) -> Iterator[str]:
    """Yield a sentence for each tool result at the end of the conversation."""
    names = {call.id: call.name for message in messages for call in message.calls}
    newest: list[str] = []
    for message in reversed(messages):
        if message.role != "tool":
            break
        tool = names.get(message.answers, "a tool")
        newest.append(f"The result of {tool} is: {quoted(message.text) or 'empty'}")
    yield from reversed(newest)


def roles(messages: tuple[Message, ...]) -> str:
    """Return the number of messages of each role, in the order of their first message."""
    counts = Counter(quoted(message.role) for message in messages)
    return ", ".join(f"{count} {role}" for role, count in list(counts.items())[:MOST_NAMES])


def listed(names: list[str]) -> str:
    """Return a list of the distinct names, shortened."""
    different = list(dict.fromkeys(names))
    return ", ".join(different[:MOST_NAMES]) + (", …" if len(different) > MOST_NAMES else "")


def numbered(number: int, thing: str) -> str:
    """Return a count with its noun in singular or plural."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def quoted(text: str) -> str:
    """Return the beginning of a text on one line."""
    return textwrap.shorten(text, QUOTE_CHARACTERS, placeholder=" …", break_on_hyphens=False)
