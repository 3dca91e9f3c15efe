"""The client that nothing is done for: `python -m bench.waits.other_client PORT [PID …]`.

It sends a small chat every few milliseconds and notes how long each answer takes, counted from the
moment at which the request was due: a request that could not be sent in time has waited too. A line
on its input ends a period, and the waits of the period are written as a line of JSON.

With the ids of processes, it notes of each wait only what those caused by computing.
"""

import gc
import http.client
import json
import select
import sys
import time
from functools import partial

from bench.cpu import caused_seconds
from bench.waits.histories import MODEL

SECONDS_BETWEEN_REQUESTS = 0.004
_HEADERS = {"content-type": "application/json", "authorization": "Bearer sk-other"}


def main(port: int, *pids: int) -> None:
    """Ask until the input ends."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    waits: list[float] = []
    number = 0
    due = time.perf_counter()
    gc.freeze()
    while True:
        number += 1
        ask = partial(_ask, connection, number)
        caused = caused_seconds(pids, ask) if pids else ask()
        now = time.perf_counter()
        waits.append(now - due if caused is None else caused)
        due += SECONDS_BETWEEN_REQUESTS
        readable, _, _ = select.select([sys.stdin], [], [], max(0.0, due - now))
        if readable:
            if not sys.stdin.readline():
                return
            print(json.dumps(waits), flush=True)
            waits = []
            due = time.perf_counter()
        elif due > time.perf_counter():
            time.sleep(max(0.0, due - time.perf_counter()))


def _ask(connection: http.client.HTTPConnection, number: int) -> None:
    message = {"role": "user", "content": f"Say well, please. This is request {number}."}
    body = json.dumps({"model": MODEL, "messages": [message], "max_tokens": 64})
    connection.request("POST", "/v1/chat/completions", body, _HEADERS)
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        sys.exit(f"the proxy answered {answer.status}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
