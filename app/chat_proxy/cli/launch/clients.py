"""What each client needs to talk to the proxy: variables and arguments, and no file."""

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

PROVIDER = "chat-proxy"
"""The name under which clients show the proxy; another one than OpenAI's changes what they send."""


class Target(NamedTuple):
    """The proxy that a client is started against."""

    root: str
    """Its address, without `/v1`."""
    model: str


class Start(NamedTuple):
    """How a client is started: variables to set, and arguments before the user's own."""

    variables: Mapping[str, str]
    arguments: tuple[str, ...] = ()


class Client(NamedTuple):
    """A client that can be started."""

    program: str
    package: str
    """Its package at npm, for users who do not have it."""
    key: str
    """The variable that it reads its key from."""
    start: Callable[[Target], Start]
    other_keys: tuple[str, ...] = ()
    """Variables whose keys it would send beside or instead."""


def claude(target: Target) -> Start:
    """Return how Claude Code is started: all its models are the one."""
    names = ("ANTHROPIC_MODEL", *(f"ANTHROPIC_DEFAULT_{it}_MODEL" for it in _CLAUDE_MODELS))
    return Start(
        {
            "ANTHROPIC_BASE_URL": target.root,
            **dict.fromkeys(names, target.model),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
    )


def codex(target: Target) -> Start:
    """Return how Codex is started: its configuration as arguments."""
    provider = {
        "name": PROVIDER,
        "base_url": f"{target.root}/v1",
        "env_key": "OPENAI_API_KEY",
        "wire_api": "responses",
    }
    table = ", ".join(f"{name} = {json.dumps(value)}" for name, value in provider.items())
    settings = (
        f"model={json.dumps(target.model)}",
        f"model_provider={json.dumps(PROVIDER)}",
        f"model_providers.{PROVIDER}={{ {table} }}",
    )
    return Start({}, tuple(part for setting in settings for part in ("-c", setting)))


def opencode(target: Target) -> Start:
    """Return how opencode is started: its configuration in a variable."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": PROVIDER,
        "options": {"baseURL": f"{target.root}/v1", "apiKey": "{env:OPENAI_API_KEY}"},
        "models": {target.model: {}},
    }
    config = {"provider": {PROVIDER: provider}, "model": f"{PROVIDER}/{target.model}"}
    return Start({"OPENCODE_CONFIG_CONTENT": json.dumps(config)})


def qwen(target: Target) -> Start:
    """Return how qwen-code is started."""
    variables = {"OPENAI_BASE_URL": f"{target.root}/v1", "OPENAI_MODEL": target.model}
    return Start(variables, ("--auth-type", "openai"))


_CLAUDE_MODELS = ("OPUS", "SONNET", "HAIKU")
_OPENAI_KEY = "OPENAI_API_KEY"
CLIENTS: Mapping[str, Client] = {
    "claude": Client(
        "claude",
        "@anthropic-ai/claude-code",
        "ANTHROPIC_AUTH_TOKEN",
        claude,
        ("ANTHROPIC_API_KEY",),
    ),
    "codex": Client("codex", "@openai/codex", _OPENAI_KEY, codex),
    "opencode": Client("opencode", "opencode-ai", _OPENAI_KEY, opencode),
    "qwen": Client("qwen", "@qwen-code/qwen-code", _OPENAI_KEY, qwen),
}
