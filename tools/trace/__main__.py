"""Count the files that one request runs through: `python -m tools.trace [--summary]`.

The proxy runs in this process, on a real socket, in front of the demo model in another process.
After a few warm-up requests one more is sent on the same connection, and every call of a function
of the package in the request's own task is noted. Printed are the distinct files, and how often
the file changes from one call to the next: what a reader who follows the request must open, and how
often. Background work (metrics, dashboard, stores) is not part of it.
"""

import argparse
import asyncio
import json
import subprocess
import sys
from pathlib import Path

from tools.trace.recorder import Recorder
from tools.trace.served import Served, serving_demo_model, serving_proxy

WARM_UP = 3
HELLO = [{"role": "user", "content": "Hello!"}]


def main() -> None:
    """Trace one request and print the figures."""
    arguments = _arguments()
    with serving_demo_model() as model_url:
        recorder = asyncio.run(_traced(model_url, with_summary=arguments.summary))
    kind = "a request with a new summary" if arguments.summary else "a small request"
    print(f"{kind}: {len(recorder.files)} files, {recorder.changes} changes of file")
    if arguments.files:
        print("\n".join(f"  {file}" for file in sorted(recorder.files)))
    if arguments.path:
        print(" → ".join(recorder.path))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--summary", action="store_true", help="trace a request that is folded")
    parser.add_argument("--files", action="store_true", help="print the files")
    parser.add_argument("--path", action="store_true", help="print the files in their order")
    return parser.parse_args()


async def _traced(model_url: str, *, with_summary: bool) -> Recorder:
    async with serving_proxy(model_url) as served:
        client = await _start_client(served)
        for _ in range(WARM_UP):
            await _ask(client, HELLO)
        with Recorder(served.package) as recorder:
            await _ask(client, _long_chat() if with_summary else HELLO)
        assert client.stdin
        client.stdin.close()
        await client.wait()
    return recorder


async def _start_client(served: Served) -> asyncio.subprocess.Process:
    """Start the client in a process of its own: in this one it would be traced too."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, str(Path(__file__).with_name("client.py")), served.url),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


async def _ask(client: asyncio.subprocess.Process, messages: list[dict[str, str]]) -> None:
    assert client.stdin
    assert client.stdout
    client.stdin.write(json.dumps(messages).encode() + b"\n")
    await client.stdin.drain()
    status = (await client.stdout.readline()).strip()
    if status != b"200":
        raise SystemExit(f"the request was answered with {status.decode() or 'nothing'}")


def _long_chat() -> list[dict[str, str]]:
    """Return a chat that does not fit the demo model's window."""
    words = " ".join(f"word{number}" for number in range(150))
    return [
        {"role": role, "content": f"{number}: {words}"}
        for number in range(12)
        for role in ("user", "assistant")
    ] + [{"role": "user", "content": "Go on."}]


if __name__ == "__main__":
    main()
