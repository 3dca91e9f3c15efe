"""Asks a server how it is, again and again, from a process of its own, until its input ends.

Beside the waits it tells how late its own pauses ended: what the machine, not the server, takes.
"""

import json
import select
import socket
import sys
import time

PAUSE_SECONDS = 0.002
QUESTION = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


def main(port: int) -> None:
    waits: list[float] = []
    lateness: list[float] = []
    with socket.create_connection(("127.0.0.1", port), 60) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            began = time.monotonic()
            server.sendall(QUESTION)
            assert server.recv(4096).startswith(b"HTTP/1.1 200 ")
            answered = time.monotonic()
            waits.append(answered - began)
            if len(waits) == 1:
                sys.stdout.write("ready\n")
                sys.stdout.flush()
            if select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
                break
            lateness.append(time.monotonic() - answered - PAUSE_SECONDS)
    sys.stdout.write(json.dumps([waits, lateness]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
