"""The clients: what each is made of, how its tools are called, and what it cannot do."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from tools.compat.own_limit import OWN_LIMITS, OwnLimit

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
INSTALLED = ROOT / ".compat"
PINS: dict[str, list[str]] = json.loads((HERE / "pins.json").read_text(encoding="utf-8"))

Kind = Literal["library", "command line", "coding agent", "web page"]
LEAVE_BY_THEMSELVES: tuple[Kind, ...] = ("library", "web page")
"""Kinds whose drivers abort an answer; others are ended by a signal."""
Api = Literal["chat", "responses", "messages"]
TOOL_STEPS = 26
SMALL_WINDOW = 8_192
LAST_WORDS = "All is read and the word is marmalade."
NODE = "node@22.23.3"


@dataclass(frozen=True)
class Tool:
    """A client's own tool: its name and its arguments, with {path}, {number} or {words} in them."""

    name: str
    arguments: Mapping[str, Any]

    def call(self, number: int, path: Path) -> tuple[str, str]:
        """Return the name and the arguments for one page."""
        written = json.dumps(dict(self.arguments)).replace('"{number}"', str(number))
        return self.name, written.replace("{path}", str(path)).replace("{words}", LAST_WORDS)


READ_PAGE = Tool("read_page", {"number": "{number}"})


@dataclass(frozen=True)
class Client:
    """A client and the numbers of its runs."""

    name: str
    title: str
    driver: str
    package: str = ""
    """The client whose packages it is run with, if not its own."""
    kind: Kind = "library"
    api: Api = "chat"
    steps: int = TOOL_STEPS
    restarts: bool = False
    """Whether the proxy is restarted while it uses tools."""
    window: int = SMALL_WINDOW
    page_tokens: int = 600
    start_seconds: float = 0
    """How much longer than others it may take, because it starts a server of its own."""
    tool: Tool | None = READ_PAGE
    prove: Tool | None = None
    farewell: Tool | None = None
    pages_at_once: int = 5
    without: Mapping[str, str] = field(default_factory=dict)
    has_turns: bool = False
    """Whether every step is a turn of a chat: a message of a person, a tool call, an answer."""
    says: str = ""
    """What it must say in a long run, in any case of letters."""

    @cached_property
    def pins(self) -> list[str]:
        """The packages, each with its version."""
        return PINS[self.package or self.name]

    @property
    def version(self) -> str:
        """The version of the first package, which is the client itself."""
        return self.pins[0].rpartition("@")[2].rpartition("=")[2]

    @property
    def own_limit(self) -> OwnLimit | None:
        """How it compacts by itself, if it is tried with a limit of its own."""
        return OWN_LIMITS.get(self.name)

    def with_own_limit(self, own: OwnLimit) -> Self:
        """Return the client with the numbers of a run in which it compacts by itself."""
        numbers: dict[str, Any] = {"window": own.window, "page_tokens": own.page_tokens}
        return replace(self, **numbers, steps=own.steps, restarts=False)

    @property
    def from_npm(self) -> bool:
        """Whether it comes from npm and not from PyPI."""
        return "==" not in self.pins[0]

    @property
    def home(self) -> Path:
        """The folder that it is installed in."""
        return INSTALLED / (self.package or self.name)

    @property
    def driver_file(self) -> Path:
        """The small program that drives it."""
        return HERE / "clients" / self.driver


def library(name: str, title: str, api: Api) -> Client:
    """Return a library that speaks another API than chat completions, for a longer run."""
    driver = f"{name.replace('-', '_')}.py"
    return Client(name, title, driver, api=api, steps=40, window=16_384, page_tokens=1_200)


def open_webui(name: str, window: int, page_tokens: int) -> Client:
    """Return Open WebUI, whose built-in tools alone take 6,500 tokens, for a window."""
    return Client(
        name,
        "Open WebUI",
        "open_webui.py",
        package="open-webui",
        kind="web page",
        window=window,
        page_tokens=page_tokens,
        tool=Tool("calculate_timestamp", {"days_ago": 1}),
        without={} if window > SMALL_WINDOW else {"image": "its tools leave no space for one"},
        has_turns=True,
        start_seconds=240,
    )


CLIENTS = (
    Client("openai-python", "openai (Python)", "openai_python.py"),
    Client("openai-node", "openai (Node)", "openai_node.mjs"),
    Client("langchain", "LangChain", "langchain.py"),
    Client("llama-index", "LlamaIndex", "llama_index.py"),
    Client("pydantic-ai", "pydantic-ai", "pydantic_ai.py"),
    Client("ai-sdk", "Vercel AI SDK", "ai_sdk.mjs"),
    Client("openai-agents", "OpenAI Agents SDK", "openai_agents.py"),
    Client(
        "smolagents",
        "smolagents",
        "smolagents.py",
        farewell=Tool("final_answer", {"answer": "{words}"}),
    ),
    Client("llm", "llm", "llm.py", kind="command line"),
    Client("aider", "aider", "aider.py", kind="coding agent", tool=None),
    Client(
        "mini-swe-agent",
        "mini-swe-agent",
        "mini_swe_agent.py",
        kind="coding agent",
        window=12_288,
        page_tokens=1_000,
        tool=Tool("bash", {"command": "cat {path}"}),
        prove=Tool("bash", {"command": "echo done > {path}"}),
        farewell=Tool(
            "bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo '{words}'"}
        ),
        without={"streaming": "asks for whole answers", "image": "its command line takes none"},
    ),
    Client(
        "qwen-code",
        "qwen-code",
        "qwen_code.py",
        kind="coding agent",
        window=65_536,
        page_tokens=2_500,
        pages_at_once=8,
        tool=Tool("read_file", {"file_path": "{path}"}),
        prove=Tool("run_shell_command", {"command": "echo done > {path}", "is_background": False}),
    ),
    Client(
        "opencode",
        "opencode",
        "opencode.py",
        kind="coding agent",
        window=32_768,
        page_tokens=2_000,
        tool=Tool("read", {"filePath": "{path}"}),
        prove=Tool("bash", {"command": "echo done > {path}", "description": "Leaves a file"}),
    ),
    Client(
        "pi",
        "pi",
        "pi.py",
        kind="coding agent",
        window=16_384,
        page_tokens=1_500,
        tool=Tool("read", {"path": "{path}"}),
        prove=Tool("bash", {"command": "echo done > {path}"}),
    ),
    Client(
        "cline",
        "Cline CLI",
        "cline.py",
        kind="coding agent",
        window=32_768,
        page_tokens=2_000,
        tool=Tool("read_files", {"files": [{"path": "{path}"}]}),
        prove=Tool("run_commands", {"commands": ["echo done > {path}"]}),
        without={"image": "its command line takes none"},
    ),
    Client(
        "continue",
        "Continue CLI",
        "continue_cli.py",
        kind="coding agent",
        window=16_384,
        page_tokens=1_500,
        tool=Tool("Read", {"filepath": "{path}"}),
        prove=Tool("Bash", {"command": "echo done > {path}"}),
        without={"image": "its command line takes none"},
    ),
    open_webui("open-webui", 8_192, page_tokens=80),
    open_webui("open-webui-16k", 16_384, page_tokens=500),
    library("openai-agents-responses", "OpenAI Agents SDK", "responses"),
    library("langgraph-responses", "LangGraph", "responses"),
    library("pydantic-ai-responses", "pydantic-ai", "responses"),
    library("pydantic-ai-anthropic", "pydantic-ai", "messages"),
    Client(
        "codex",
        "Codex",
        "codex.py",
        kind="coding agent",
        api="responses",
        steps=100,
        restarts=True,
        window=24_576,
        page_tokens=1_500,
        tool=Tool("exec_command", {"cmd": "cat {path}"}),
        prove=Tool("exec_command", {"cmd": "echo done > {path}"}),
    ),
    Client(
        "codex-openai",
        "Codex, provider OpenAI",
        "codex_openai.py",
        package="codex",
        kind="coding agent",
        api="responses",
        steps=60,
        window=24_576,
        page_tokens=600,
        tool=Tool("exec_command", {"cmd": "cat {path}"}),
        prove=Tool("exec_command", {"cmd": "echo done > {path}"}),
        says="context compacted",
    ),
    Client(
        "claude-code",
        "Claude Code",
        "claude_code.py",
        kind="coding agent",
        api="messages",
        steps=100,
        restarts=True,
        window=24_576,
        page_tokens=500,
        pages_at_once=3,
        tool=Tool("Read", {"file_path": "{path}"}),
        prove=Tool("Bash", {"command": "echo done > {path}", "description": "Leave a file"}),
    ),
)
