"""How chat templates frame a conversation: their special tokens, and the texts between these.

The forms are those of the models; the sentences that real templates contain are replaced by others
of the same length.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tools.counts.texts import as_json

Message = dict[str, Any]
Tools = Sequence[dict[str, Any]]

_HELPFUL: Final = "You are a friendly model that was made by a company, and you help people."
_DATES: Final = "Knowledge ends in: December 2023\nThe date is: 26 Jul 2024\n\n"
_TOOLS_FIRST: Final = (
    "# Tools\n\nOne or more functions may be called to help with the question of the user.\n\n"
    "The signatures of the functions are within the XML tags <tools></tools>:\n<tools>\n"
)
_TOOLS_LAST: Final = (
    "\n</tools>\n\nTo call a function, return a JSON object with its name and its arguments within "
    'the XML tags <tool_call></tool_call>:\n<tool_call>\n{"name": <name of the function>, '
    '"arguments": <JSON object of the arguments>}\n</tool_call>'
)
_TOOLS_LLAMA: Final = (
    "Here are functions. Answer with a JSON object for a call of one of them, with the arguments "
    'that fit the question best, in the form {"name": the name, "parameters": a dictionary of '
    "arguments and their values}. Do not use variables.\n\n"
)


@dataclass
class Prompt:
    """A prompt: so many special tokens, and texts that are tokenized each for itself."""

    specials: int = 0
    texts: list[str] = field(default_factory=list)

    def add(self, specials: int, *texts: str) -> None:
        """Append special tokens and the texts between them."""
        self.specials += specials
        self.texts += texts


def chatml(messages: Sequence[Message], tools: Tools, default: str = "") -> Prompt:
    """Return the prompt of Qwen and others; `default` are the instructions if there are none."""
    prompt = Prompt()
    system = messages[0]["content"] if messages[0]["role"] == "system" else default
    if tools:
        listed = "\n".join(map(as_json, tools))
        prompt.add(6, "system\n", f"{system}\n\n{_TOOLS_FIRST}{listed}{_TOOLS_LAST}", "\n")
    elif system:
        prompt.add(2, f"system\n{system}", "\n")
    previous = ""
    for message in messages:
        role, content = message["role"], message["content"] or ""
        if role == "tool":
            if previous != "tool":
                prompt.add(2, "user", "\n")
            prompt.add(2, "\n", f"\n{content}\n")
        elif role != "system":
            prompt.add(2, f"{role}\n{content}", "\n")
        for call in message.get("tool_calls", ()):
            prompt.add(2, f'\n{{"name": "{_name(call)}", "arguments": {_arguments(call)}}}\n', "\n")
        previous = role
    prompt.add(1, "assistant\n")
    return prompt


def chatml_led(messages: Sequence[Message], tools: Tools) -> Prompt:
    """Return the same with instructions of the template's own where the request has none."""
    return chatml(messages, tools, _HELPFUL)


def headers(messages: Sequence[Message], tools: Tools, dates: str = _DATES) -> Prompt:
    """Return the prompt of Llama 3: a header before each message, and always a system message."""
    prompt = Prompt(1)
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    if system or dates:
        prompt.add(3, "system", f"\n\n{dates}{system}")
    definitions = "\n\n".join(json.dumps(tool, indent=4, ensure_ascii=False) for tool in tools)
    for message in messages:
        role, content = message["role"], message["content"] or ""
        if role == "system":
            continue
        if definitions and role == "user":
            content, definitions = f"{_TOOLS_LLAMA}{definitions}\n\n{content}", ""
        if role == "tool":
            role, content = "ipython", as_json(content)
        for call in message.get("tool_calls", ()):
            content = f'{{"name": "{_name(call)}", "parameters": {_arguments(call)}}}'
        prompt.add(3, role, f"\n\n{content}")
    prompt.add(2, "assistant", "\n\n")
    return prompt


def headers_without_dates(messages: Sequence[Message], tools: Tools) -> Prompt:
    """Return the prompt of Llama 4, which has no system message of its own."""
    return headers(messages, tools, "")


def instructions(messages: Sequence[Message], tools: Tools) -> Prompt:
    """Return the prompt of Mistral's models: marks instead of roles."""
    prompt = Prompt(1)
    for number, message in enumerate(messages):
        content = message["content"] or ""
        match message["role"]:
            case "system":
                prompt.add(2, content)
            case "user":
                if tools and not any(it["role"] == "user" for it in messages[number + 1 :]):
                    prompt.add(2, as_json(tools))
                prompt.add(2, content)
            case "tool":
                result = {"content": content, "call_id": message["tool_call_id"][:9]}
                prompt.add(2, as_json(result))
            case _:
                calls = [
                    {"name": _name(it), "arguments": json.loads(_arguments(it)), "id": it["id"][:9]}
                    for it in message.get("tool_calls", ())
                ]
                prompt.add(2 if calls else 1, content, as_json(calls) if calls else "")
    return prompt


def marks(messages: Sequence[Message], tools: Tools) -> Prompt:
    """Return the prompt of DeepSeek: one mark before each message."""
    prompt = Prompt(1)
    if tools:
        prompt.add(0, _TOOLS_LLAMA + "\n".join(map(as_json, tools)))
    for message in messages:
        content = message["content"] or ""
        match message["role"]:
            case "system":
                prompt.add(0, content)
            case "user":
                prompt.add(1, content)
            case "tool":
                prompt.add(4, content)
            case _:
                prompt.add(2, content)
                for call in message.get("tool_calls", ()):
                    code = f"\n```json\n{_arguments(call)}\n```"
                    prompt.add(5, "function", f"{_name(call)}{code}")
    prompt.add(1)
    return prompt


def separated(messages: Sequence[Message], tools: Tools) -> Prompt:
    """Return the prompt of Phi-4: a separator between role and content."""
    prompt = Prompt()
    for message in messages:
        content = message["content"] or ""
        for call in message.get("tool_calls", ()):
            content += f'{{"name": "{_name(call)}", "arguments": {_arguments(call)}}}'
        if tools and message["role"] == "system":
            content += as_json(tools)
        prompt.add(3, message["role"], content)
    prompt.add(2, "assistant")
    return prompt


def _name(call: dict[str, Any]) -> str:
    return str(call["function"]["name"])


def _arguments(call: dict[str, Any]) -> str:
    return str(call["function"]["arguments"])


TEMPLATES: Final[dict[str, tuple[str, Callable[[Sequence[Message], Tools], Prompt]]]] = {
    "qwen": ("Qwen/Qwen2.5-7B-Instruct", chatml_led),
    "llama3": ("meta-llama/Llama-3.1-8B-Instruct", headers),
    "llama4": ("meta-llama/Llama-4-Scout-17B-16E-Instruct", headers_without_dates),
    "tekken": ("mistralai/Mistral-Small-24B-Instruct-2501", instructions),
    "deepseek": ("deepseek-ai/DeepSeek-V3", marks),
    "cl100k": ("microsoft/phi-4", separated),
    "qwen3.5": ("Qwen/Qwen3.6-27B", chatml),
    "smollm": ("HuggingFaceTB/SmolLM2-135M-Instruct", chatml_led),
    "sentencepiece": ("mistralai/Mistral-7B-Instruct-v0.3", instructions),
    "glm": ("zai-org/GLM-4.6", marks),
    "kimi": ("moonshotai/Kimi-K2-Instruct", separated),
    "gemma": ("google/gemma-3-12b-it", separated),
}
"""The model of each vocabulary, and its template."""
