"""What a request costs: the table of docs/benchmarks.md, from the results of `python -m bench`."""

from collections.abc import Callable, Iterator

from bench.contenders import BARE_RELAY, CHAT_PROXY, CHAT_PROXY_OFF, NGINX
from bench.peers.agentic_api import AGENTIC_API
from bench.peers.catalogue import PEERS
from bench.peers.envoy import ENVOY
from bench.peers.headroom import HEADROOM
from bench.peers.litellm import LITELLM
from bench.peers.portkey import PORTKEY
from bench.results import Results
from bench.traffic.scenarios import ALONE, CROWD, LARGE, SMALL, STREAM

LABELS = {
    ALONE: "small request, one connection",
    SMALL: "small request, 16 connections",
    CROWD: "small request, 256 connections",
    LARGE: "120 KB request of a growing conversation, 16 connections",
    STREAM: "100-chunk stream, 16 connections",
}
_TITLES = {CHAT_PROXY_OFF: "chat-proxy, off"}
_PARTS = {
    2: "half",
    3: "third",
    4: "quarter",
    5: "fifth",
    6: "sixth",
    7: "seventh",
    8: "eighth",
    9: "ninth",
    10: "tenth",
    15: "fifteenth",
    20: "twentieth",
    30: "thirtieth",
    40: "fortieth",
    50: "fiftieth",
    60: "sixtieth",
    70: "seventieth",
    80: "eightieth",
    90: "ninetieth",
    100: "hundredth",
}
_NOTES = """\
* Compiled peers relay cheaper than Python can. Envoy counts no tokens and compacts nothing; neither
  does agentic-api on chat completions: its compaction belongs to its Responses API.
* The large requests grow by 6.5 KB each, from 5 to 240 KB, and every message is new to the proxies:
  chat-proxy counts its tokens. nginx's figure there depends on the burst before it: with one body
  of 120 KB again and again, it was between 41 and 71 µs.
* Node compiles while it runs: a Portkey that runs longer is cheaper."""


def part(times: float | None) -> str:
    """Return the largest simple part that one over `times` does not exceed: 62 is a sixtieth."""
    fitting = [number for number in _PARTS if times is not None and number <= times]
    return f"a {_PARTS[max(fitting)]}" if fitting else "no part"


def block(results: Results) -> str:
    """Return what stands between the marks of docs/benchmarks.md."""
    return "\n".join([*_lines(results), ""])


def _lines(results: Results) -> Iterator[str]:
    facts = results.facts
    yield (
        f"CPU per request in µs, median of {facts['rounds']} interleaved rounds "
        f"(`BENCH_PEERS=1 python -m bench --rounds {facts['rounds']}`)\n"
        f"on {facts['cores']} shared cores ({facts['processor']}, load "
        f"{facts['load_average_before']:.1f} before it, {facts['date'][:10]}): compare within a\n"
        "row. `off` is the proxy with `CHAT_PROXY_MODE=off`, which looks at nothing."
    )
    known = (NGINX, BARE_RELAY, CHAT_PROXY_OFF, CHAT_PROXY, *PEERS)
    names = [name for name in known if results.entry(name)]
    yield f"\n| | {' | '.join(_TITLES.get(name, name) for name in names)} |"
    yield f"|{'---|' * (len(names) + 1)}"
    for scenario, label in LABELS.items():
        yield _row(label, [results.cpu(name, scenario) for name in names])
    yield _row(
        "added latency p50, one connection",
        [results.added_latency(name, "p50_us") for name in names],
    )
    entries = [entry for name in names if (entry := results.entry(name))]
    yield _row("idle memory, MB", [entry.idle_bytes / 1e6 for entry in entries])
    yield _row("ready after, s", [min(entry.ready_seconds) for entry in entries], _seconds)
    yield f"\nVersions: {', '.join(f'{it.name} {it.version}' for it in entries)}."
    yield f"\n{_compared(results)}\n"
    yield from (f"* {it}" for it in map(_cheaper(results), names) if it)
    yield _NOTES


def _compared(results: Results) -> str:
    times = results.ratio(CHAT_PROXY, NGINX, SMALL) or 0.0
    parts = {it: part(results.ratio(it, CHAT_PROXY, SMALL)) for it in (LITELLM, HEADROOM, PORTKEY)}
    return (
        f"With 16 connections a small request costs {times:.1f} times what nginx needs, "
        f"{parts[LITELLM]} of LiteLLM,\n{parts[HEADROOM]} of headroom "
        f"and {parts[PORTKEY]} of Portkey."
    )


def _cheaper(results: Results) -> Callable[[str], str]:
    """Return a function that says where a compiled peer needs less CPU than chat-proxy."""

    def told(name: str) -> str:
        if name not in (ENVOY, AGENTIC_API):
            return ""
        ratios = {it: results.ratio(name, CHAT_PROXY, it) for it in LABELS}
        less = [
            f"{ratio:.2f} x ({LABELS[it]})" for it, ratio in ratios.items() if ratio and ratio < 1
        ]
        return f"{name} needs less CPU than chat-proxy: {'; '.join(less)}." if less else ""

    return told


def _row(
    label: str,
    values: list[float | None] | list[float],
    write: Callable[[float], str] | None = None,
) -> str:
    write = write or _whole
    return f"| {label} | {' | '.join('-' if it is None else write(it) for it in values)} |"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _seconds(value: float) -> str:
    return f"{value:.2g}"
