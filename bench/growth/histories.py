"""CPU per request as a conversation grows: each request is the last one and two messages more."""

import http.client
import random
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from bench.contenders import Place, launch_chat_proxy, launch_fake_upstream
from bench.cpu import cpu_seconds
from bench.progress import tell
from bench.servers import Server, free_port
from bench.traffic.payloads import MODEL

LENGTHS = (10, 30, 100, 300, 1_000, 3_000, 9_900)
MODES = ("off", "on")
REQUESTS = 12
ROUNDS = 3
WINDOW_TOKENS = "20000000"
"""So large that nothing is ever compacted: this is about looking at a history."""

Json = dict[str, Any]


def measure(folder: Path) -> dict[str, dict[int, float]]:
    """Return the CPU microseconds per request by mode and number of messages, best round."""
    upstream_port, port = free_port(), free_port()
    launch = launch_chat_proxy(Place(port, upstream_port, folder))
    launch.environment["CHAT_PROXY_BUDGET_CONTEXT_WINDOW"] = WINDOW_TOKENS
    found: dict[str, dict[int, float]] = {mode: {} for mode in MODES}
    with Server(launch_fake_upstream(upstream_port), folder), Server(launch, folder) as proxy:
        for length in LENGTHS:
            for _ in range(ROUNDS):
                for mode in MODES:
                    tell(f"history of {length} messages, mode {mode}")
                    cost = _cost(proxy, length, mode)
                    found[mode][length] = min(cost, found[mode].get(length, cost))
    return found


def _cost(proxy: Server, length: int, mode: str) -> float:
    """Return the median CPU of the requests behind the first, which meets a new history."""
    connection = http.client.HTTPConnection("127.0.0.1", proxy.launch.port, timeout=60)
    headers = {"content-type": "application/json", "x-chat-proxy-mode": mode}
    costs = []
    for body in _growing(length):
        before = cpu_seconds(proxy.session)
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            sys.exit(f"the proxy answered {answer.status}")
        costs.append((cpu_seconds(proxy.session) - before) * 1e6)
    connection.close()
    return statistics.median(costs[1:])


def _growing(length: int) -> Iterator[bytes]:
    """Yield a conversation's requests; every one of them ends with this many messages or more."""
    words = random.Random(random.random())
    messages = [_message(words, number) for number in range(length)]
    for _ in range(REQUESTS):
        yield orjson.dumps({"model": MODEL, "messages": messages, "max_tokens": 256})
        messages += [_message(words, len(messages)), _message(words, len(messages) + 1)]


def _message(words: random.Random, number: int) -> Json:
    text = " ".join(f"{words.randrange(16**6):x}" for _ in range(25))
    return {"role": ("user", "assistant")[number % 2], "content": text}
