"""The polite tenant, in a process of its own: it asks for some seconds, and tells how long it took.

Each of its clients keeps its connection and sends one chat after another; every tenth one is long.
An answer is lost if it is not a 200 with the canary of its own request.
"""

import asyncio
import json
import sys
from itertools import count

from tests.support.clock import own_time
from tests.support.live import RawClient, chat_request

CLIENTS = 6
PAUSE_SECONDS = 0.02
LONGEST_SECONDS = 30
LONG_EVERY = 10
WORDS = "A polite question about nothing in particular, asked again. "


def body_of(client: int, number: int) -> bytes:
    """Return a chat of 2 KB, or of 60 KB, with a canary of its own."""
    times = 1_000 if number % LONG_EVERY == 0 else 30
    said = f"canary-{client}-{number} {WORDS * times}"
    return json.dumps({"model": "fake", "messages": [{"role": "user", "content": said}]}).encode()


class Polite:
    """What the clients saw."""

    def __init__(self, port: int, pid: int, key: str) -> None:
        self._port = port
        self._pid = pid
        self._key = key
        self.seconds: list[float] = []
        self.lost: list[str] = []

    async def ask(self, client: int, until: float) -> None:
        """Send chats until a time; after a lost one, on a new connection."""
        loop = asyncio.get_running_loop()
        line: RawClient | None = None
        for number in count():
            if loop.time() >= until:
                break
            began = own_time(self._pid)
            try:
                async with asyncio.timeout(LONGEST_SECONDS):
                    line = line or await self._connect()
                    await line.send(
                        chat_request(body_of(client, number), f"authorization: Bearer {self._key}")
                    )
                    answer = await line.answer()
                if f'"canary-{client}-{number}"'.encode() not in answer.body:
                    self.lost.append(f"{answer.status} {answer.body[:200]!r}")
            except (OSError, EOFError, TimeoutError) as error:
                self.lost.append(type(error).__name__)
                line = None
            self.seconds.append(own_time(self._pid) - began)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _connect(self) -> RawClient:
        return RawClient(*await asyncio.open_connection("127.0.0.1", self._port))


async def main(port: int, pid: int, key: str, seconds: float) -> None:
    """Ask from all clients, and print the waits and what was lost as JSON."""
    polite = Polite(port, pid, key)
    until = asyncio.get_running_loop().time() + seconds
    await asyncio.gather(*(polite.ask(client, until) for client in range(CLIENTS)))
    sys.stdout.write(json.dumps([polite.seconds, polite.lost]))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])))
