"""The contenders of a run: installed, started, timed, and stopped together."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench.contenders import Contender, Place, launch_fake_upstream
from bench.cpu import resident_bytes
from bench.peers.install import PeerUnavailable
from bench.progress import tell
from bench.results import Entry
from bench.rounds import Runner
from bench.servers import Server, ServerFailed, free_port

SECONDS_TO_IDLE = 0.5


class Lineup:
    """Everyone who takes part; all of them are stopped when `running` closes."""

    def __init__(self, folder: Path, running: ExitStack, starts: int) -> None:
        self.runners: list[Runner] = []
        self.entries: list[Entry] = []
        self._folder = folder
        self._running = running
        self._starts = starts
        self._upstream_port = free_port()
        self.upstream = running.enter_context(
            Server(launch_fake_upstream(self._upstream_port), folder)
        )

    def add(self, contender: Contender) -> None:
        """Start a contender a few times, and keep the last one running."""
        entry = Entry(contender.name, contender.version)
        for number in range(1, self._starts):
            tell(f"start {number} of {self._starts}: {contender.name}")
            with self._server(contender) as server:
                entry.ready_seconds.append(server.ready_after_seconds)
        tell(f"start {self._starts} of {self._starts}: {contender.name}")
        server = self._running.enter_context(self._server(contender))
        entry.ready_seconds.append(server.ready_after_seconds)
        time.sleep(SECONDS_TO_IDLE)
        entry.idle_bytes = resident_bytes(server.session)
        self.runners.append(Runner(contender.name, server))
        self.entries.append(entry)

    def add_peer(self, name: str, install: Callable[[], Contender]) -> None:
        """Install and start a peer; one that cannot is entered with the reason."""
        tell(f"installing {name}")
        try:
            self.add(install())
        except (PeerUnavailable, ServerFailed) as error:
            self.entries.append(Entry(name, "", unavailable=str(error)))

    def weigh(self) -> None:
        """Note everyone's memory after the load."""
        for runner in self.runners:
            entry = next(e for e in self.entries if e.name == runner.name)
            entry.loaded_bytes = resident_bytes(runner.server.session)

    def _server(self, contender: Contender) -> Server:
        place = Place(free_port(), self._upstream_port, self._folder)
        return Server(contender.launch(place), self._folder)
