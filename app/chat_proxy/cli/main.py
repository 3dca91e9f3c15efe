"""The command line: serve, demo, check-config, explain, compact, purge."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import NoReturn

from chat_proxy.cli.check_config import check_config
from chat_proxy.cli.compact import compact_file
from chat_proxy.cli.demo import run_demo
from chat_proxy.cli.explain import explain_file
from chat_proxy.cli.purge import purge
from chat_proxy.cli.serve import serve
from chat_proxy.config.environment import BadConfiguration, read_settings, read_variables
from chat_proxy.proxy.manual.compact import ManualOptions

EXIT_BAD_CONFIGURATION = 2


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command and leave with its exit code: 2 for a bad configuration."""
    options = parser().parse_args(arguments)
    try:
        sys.exit(options.run(options))
    except BadConfiguration as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"chat-proxy: {line}\n")
        sys.exit(EXIT_BAD_CONFIGURATION)
    except BrokenPipeError:
        # Whoever read the output has seen enough, as head does; nothing is left to be flushed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(
        prog="chat-proxy",
        description="An OpenAI-compatible proxy that keeps conversations inside the window.",
        epilog="Settings are CHAT_PROXY_* environment variables or lines of .env; see README.md.",
    )
    top.add_argument("--version", action="version", version=version("chat-proxy"))
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("serve", help="run the proxy").set_defaults(run=_serve)
    demo = commands.add_parser("demo", help="run the proxy in front of a built-in demo model")
    demo.add_argument(
        "--window", type=int, default=4096, metavar="TOKENS", help="the demo model's window (4096)"
    )
    demo.add_argument(
        "--story",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="send a long conversation through the proxy and show it (default: on a terminal)",
    )
    demo.set_defaults(run=_demo)
    explain = commands.add_parser(
        "explain", help="show what the proxy sees in a request body: tokens, turns, window, budget"
    )
    explain.add_argument("file", metavar="FILE", help="a chat request as JSON; - for stdin")
    explain.add_argument("--json", action="store_true", help="print JSON instead of a table")
    explain.set_defaults(run=_explain)
    remove = commands.add_parser(
        "purge", help="delete what was kept: by age, by tenant, or everything"
    )
    remove.add_argument("--older-than", type=float, metavar="DAYS", help="what is older than this")
    remove.add_argument(
        "--tenant",
        metavar="SHA256",
        help="the hash of its API key, anonymous, or - to read the key from stdin",
    )
    remove.add_argument("--all", action="store_true", help="everything")
    remove.set_defaults(run=_purge)
    compact = commands.add_parser(
        "compact", help="fold a request body's older messages into a summary, and print it"
    )
    compact.add_argument("file", metavar="FILE", help="a chat request as JSON; - for stdin")
    compact.add_argument(
        "--keep", type=int, default=1, metavar="N", help="how many of the last turns stay (1)"
    )
    compact.add_argument(
        "--instruction", default="", metavar="TEXT", help="what the summary should care about"
    )
    compact.add_argument(
        "--json", action="store_true", help="print the summary and its figures beside the messages"
    )
    compact.set_defaults(run=_compact)
    check = commands.add_parser(
        "check-config", help="print the effective configuration and probe the upstream"
    )
    check.add_argument("--no-probe", action="store_true", help="do not ask the upstream")
    check.set_defaults(run=_check_config)
    return top


def _serve(_: argparse.Namespace) -> int:
    return serve(read_settings(), read_variables())


def _demo(options: argparse.Namespace) -> int:
    if options.window < 1:
        raise BadConfiguration(f"--window {options.window}: must be at least 1")
    return run_demo(read_settings(env_file=None), options.window, story=options.story)


def _explain(options: argparse.Namespace) -> int:
    return explain_file(read_settings(), read_variables(), options.file, as_json=options.json)


def _purge(options: argparse.Namespace) -> int:
    return purge(read_settings(), options.older_than, options.tenant, everything=options.all)


def _compact(options: argparse.Namespace) -> int:
    wish = ManualOptions(options.keep, options.instruction.strip())
    return compact_file(read_settings(), read_variables(), options.file, wish, as_json=options.json)


def _check_config(options: argparse.Namespace) -> int:
    return check_config(read_settings(), read_variables(), probe=not options.no_probe)
