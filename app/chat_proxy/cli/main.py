"""The command line. Each command is a module of this folder, imported only when it is run."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from chat_proxy import __version__
from chat_proxy.cli.terminal.flags import add_env_file, add_setting_flags
from chat_proxy.errors import BadConfiguration

EXIT_BAD_CONFIGURATION = 2


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit with its code: 2 for a bad configuration."""
    options = parsed(sys.argv[1:] if arguments is None else list(arguments))
    try:
        # Importing a command imports FastAPI or the tokenizer, which `--help` has no need of.
        command = import_module(f"chat_proxy.cli.{options.module}")
        sys.exit(command.run(options))
    except BadConfiguration as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"chat-proxy: {line}\n")
        sys.exit(EXIT_BAD_CONFIGURATION)
    except BrokenPipeError:
        # The reader of the output has closed it, as `head` does; nothing is left to be flushed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def parsed(arguments: list[str]) -> argparse.Namespace:
    """Return the options; for `launch`, what follows `--` is passed on as it is."""
    end = arguments.index("--") if "--" in arguments and arguments[0] == "launch" else None
    top = parser()
    if not arguments:
        top.print_help(sys.stderr)
        sys.exit(EXIT_BAD_CONFIGURATION)
    options = top.parse_args(arguments[:end])
    options.passed_on = [] if end is None else arguments[end + 1 :]
    return options


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(
        prog="chat-proxy",
        description="An OpenAI-compatible proxy that keeps conversations inside the window.",
        epilog="Settings are CHAT_PROXY_* environment variables or lines of .env: "
        "`chat-proxy settings` lists all, `chat-proxy serve --help` the flags of the usual ones.",
    )
    top.add_argument("--version", action="version", version=__version__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    for add in (
        _add_serve,
        _add_demo,
        _add_launch,
        _add_settings,
        _add_check_config,
        _add_explain,
        _add_compact,
        _add_export,
        _add_purge,
    ):
        add(commands)
    return top


Commands = argparse._SubParsersAction  # noqa: SLF001 - argparse has no public name for it


def _command(commands: Commands, name: str, description: str) -> argparse.ArgumentParser:  # type: ignore[type-arg]
    command: argparse.ArgumentParser = commands.add_parser(name, help=description)
    command.set_defaults(module=name.replace("-", "_"))
    return command


def _add_serve(commands: Commands) -> None:  # type: ignore[type-arg]
    serve = _command(commands, "serve", "run the proxy")
    serve.epilog = "A flag beats its variable (in brackets), which beats .env."
    add_setting_flags(serve)


def _add_settings(commands: Commands) -> None:  # type: ignore[type-arg]
    settings = _command(
        commands, "settings", "list every setting: its variable, its default and what it means"
    )
    form = settings.add_mutually_exclusive_group()
    form.add_argument("--env", action="store_true", help="print a commented .env file")
    form.add_argument("--json", action="store_true", help="print JSON")


def _add_demo(commands: Commands) -> None:  # type: ignore[type-arg]
    demo = _command(commands, "demo", "run the proxy in front of a built-in demo model")
    demo.add_argument(
        "--window",
        type=int,
        metavar="TOKENS",
        help="the model's window (4096; with --real 2048)",
    )
    demo.add_argument(
        "--real",
        action="store_true",
        help="use a real small model instead: SmolLM2 on llama.cpp, with the extra `real`",
    )
    demo.add_argument(
        "--story",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="send a long conversation through the proxy and show it (default: on a terminal)",
    )


def _add_launch(commands: Commands) -> None:  # type: ignore[type-arg]
    launch = _command(commands, "launch", "start a coding agent against the running proxy")
    launch.set_defaults(module="launch.launch")
    launch.epilog = "What follows -- is passed on to the client: chat-proxy launch codex -- exec Hi"
    launch.add_argument("client", choices=("claude", "codex", "opencode", "qwen"))
    launch.add_argument("--model", metavar="NAME", help="the model (the first that is listed)")
    launch.add_argument("--url", metavar="URL", help="the proxy (the address of the settings)")


def _add_explain(commands: Commands) -> None:  # type: ignore[type-arg]
    explain = _command(
        commands,
        "explain",
        "show what the proxy sees in a request body: tokens, turns, window, budget",
    )
    explain.add_argument("file", metavar="FILE", help="a request of any API as JSON; - for stdin")
    explain.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_env_file(explain)


def _add_export(commands: Commands) -> None:  # type: ignore[type-arg]
    export = _command(
        commands, "export", "print the originals of compacted conversations from the archive"
    )
    export.add_argument(
        "conversation",
        nargs="?",
        metavar="NAME",
        help="the conversation, by the beginning of its name; without one, list all of them",
    )
    export.add_argument(
        "--format",
        choices=("jsonl", "markdown"),
        default="jsonl",
        help="lines of JSON as the client sent them (jsonl), or text to read (markdown)",
    )
    export.add_argument(
        "--tenant",
        metavar="SHA256",
        help="a tenant by the hash of its API key; anonymous; or - to read the key from stdin",
    )
    add_env_file(export)


def _add_purge(commands: Commands) -> None:  # type: ignore[type-arg]
    purge = _command(commands, "purge", "delete stored data: by age, by tenant, or everything")
    purge.add_argument(
        "--older-than", type=float, metavar="DAYS", help="delete data older than this"
    )
    purge.add_argument(
        "--tenant",
        metavar="SHA256",
        help="a tenant by the hash of its API key; anonymous; or - to read the key from stdin",
    )
    purge.add_argument("--all", action="store_true", help="delete everything")
    add_env_file(purge)


def _add_compact(commands: Commands) -> None:  # type: ignore[type-arg]
    compact = _command(
        commands, "compact", "fold a request body's older messages into a summary, and print it"
    )
    compact.add_argument("file", metavar="FILE", help="a request of any API as JSON; - for stdin")
    compact.add_argument(
        "--keep", type=int, default=1, metavar="N", help="how many of the last turns to keep (1)"
    )
    compact.add_argument(
        "--instruction", default="", metavar="TEXT", help="what the summary should focus on"
    )
    compact.add_argument(
        "--json", action="store_true", help="print the summary and its figures with the messages"
    )
    add_env_file(compact)


def _add_check_config(commands: Commands) -> None:  # type: ignore[type-arg]
    check = _command(
        commands, "check-config", "print the effective configuration and probe the upstream"
    )
    check.add_argument("--no-probe", action="store_true", help="do not ask the upstream")
    add_setting_flags(check)
