"""llama.cpp's HTTP server: `python -m chat_proxy.demo.real.serve FILE PORT WINDOW`.

A process of its own, so that what llama.cpp prints or does to the process stays there. It ends when
its standard input does.
"""

import importlib
import os
import signal
import sys

from chat_proxy.demo.real.model import NAME

MOST_THREADS = 4


def main(file: str, port: int, window: int) -> None:
    """Serve one request at a time."""
    # Ctrl-C in a terminal reaches this process too; the demo ends it after the last answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    llama = importlib.import_module("xllamacpp")
    parameters = llama.CommonParams()
    parameters.model.path = file
    parameters.model_alias = {NAME}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_ctx = window
    parameters.n_parallel = 1
    # Its threads wait for each other by spinning, so they must not be more than the free cores.
    threads = max(1, min(MOST_THREADS, (os.cpu_count() or 1) // 2))
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    server = llama.Server(parameters)
    sys.stdin.buffer.read()
    del server


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
