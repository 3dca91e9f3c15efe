"""The model behind the proxy, in a process of its own; it answers as the model's name says.

`busy` refuses with 503, `silent` never answers, every other one thinks a while and repeats the
canary that it was sent. It tells its port, and ends with its input.
"""

import asyncio
import re
import sys

from tests.support.fake_model import (
    COMPLETION,
    MODELS,
    Line,
    Received,
    answer_json,
    fake_model,
)

THINKING_SECONDS = 0.1
CANARY = re.compile(rb"canary-[0-9]+-[0-9]+")


async def behave(received: Received, line: Line) -> None:
    """Answer one request."""
    if received.method == "GET":
        await answer_json(line, MODELS)
    elif b'"busy"' in received.body[:100]:
        await answer_json(line, {"error": {"message": "overloaded"}}, 503)
    elif b'"silent"' in received.body[:100]:
        await line.until_closed()
    else:
        await asyncio.sleep(THINKING_SECONDS)
        found = CANARY.search(received.body)
        repeated = found[0].decode() if found else "nothing"
        await answer_json(line, {**COMPLETION, "system_fingerprint": repeated})


async def main() -> None:
    """Serve until the input ends, and keep no request."""
    async with fake_model(behave) as model:
        sys.stdout.write(f"{model.url}\n")
        sys.stdout.flush()
        waiting = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        while not waiting.done():
            model.requests.clear()
            await asyncio.sleep(0.2)


if __name__ == "__main__":
    asyncio.run(main())
