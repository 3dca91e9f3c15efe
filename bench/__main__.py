"""`python -m bench`: what chat-proxy costs beside nginx, a bare relay and its peers."""

import signal
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import orjson

from bench.contenders import NGINX, Contender, find_nginx, own_contenders
from bench.lineup import Lineup
from bench.machine import machine_facts
from bench.options import Options, read_options
from bench.peers.catalogue import PEERS
from bench.progress import tell
from bench.report import report
from bench.results import Results
from bench.rounds import run_rounds
from bench.servers import ServerFailed
from bench.verdict import verdicts

NGINX_IS_ABSENT = """\
!! nginx is not installed, and it is the limit that everything here is compared with.
!! Install it with:  apt-get install nginx-light"""


def main() -> int:
    """Run the benchmark; 1 says that something went wrong in it, 2 that it cannot run here."""
    own = own_contenders()
    options = read_options([contender.name for contender in own], list(PEERS))
    if NGINX in options.names and find_nginx() is None:
        print(NGINX_IS_ABSENT, file=sys.stderr)
        return 2
    # Without this a SIGTERM would end us before the servers are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        results = run(options, own)
    except ServerFailed as error:
        print(f"!! {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    print(report(results))
    if options.json is not None:
        write(results, options.json)
    return 1 if results.complaints() else 0


def run(options: Options, own: list[Contender]) -> Results:
    """Start everyone, run the rounds, stop everyone."""
    facts = {**machine_facts(), "rounds": options.rounds}
    with ExitStack() as running:
        running.callback(tell, "")
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        lineup = Lineup(folder, running, options.starts)
        for contender in own:
            if contender.name in options.names:
                lineup.add(contender)
        for name, install in PEERS.items():
            if name in options.names:
                lineup.add_peer(name, install)
        figures = run_rounds(lineup.runners, lineup.upstream, options.scenarios, options.rounds)
        lineup.weigh()
    return Results(facts, lineup.entries, figures)


def write(results: Results, path: Path) -> None:
    """Keep the figures for machines, the verdict included."""
    found = asdict(results) | {"verdict": [asdict(verdict) for verdict in verdicts(results)]}
    path.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2) + b"\n")


if __name__ == "__main__":
    sys.exit(main())
