"""One run: start everything, load it, measure it, let it rest, and count."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.support.fake_model import fake_model, polite
from tools.soak.books import Books
from tools.soak.clients import SoakClient
from tools.soak.growth import Sample, complaints_about
from tools.soak.model import SoakModel, forgetting
from tools.soak.options import Options
from tools.soak.plan import Plan
from tools.soak.proxy import WINDOW, SoakedProxy, soaked_proxy
from tools.soak.store_faults import StoreFaults, store_faults

REST_SECONDS = 15
"""Idle connections to the upstream are closed after 2.5 seconds."""


@dataclass
class Outcome:
    """What a run saw."""

    books: Books
    model: SoakModel
    store_faults: dict[str, int] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    before: Sample | None = None
    after: Sample | None = None
    complaints: list[str] = field(default_factory=list)


Told = Callable[[Sample, Outcome], None]


@dataclass
class Soak:
    """All who take part."""

    options: Options
    proxy: SoakedProxy
    faults: StoreFaults
    outcome: Outcome
    plan: Plan

    async def load(self, goes_on: Callable[[], bool]) -> None:
        """Let all clients talk as long as that holds."""
        talks = [
            SoakClient(
                self.proxy.port, self.plan, self.proxy.books, Random(self.options.seed + number)
            ).talk(goes_on, self.options.pause_seconds, self.faults)
            for number in range(self.options.clients)
        ]
        await asyncio.gather(*talks)
        await self.faults.over()

    async def measure(self, told: Told) -> None:
        """Sample the proxy again and again."""
        while True:
            sample = await self.proxy.sample()
            self.outcome.samples.append(sample)
            told(sample, self.outcome)
            await asyncio.sleep(self.options.every_seconds)

    async def rested(self, least: Sample | None = None) -> Sample:
        """Return what the idle proxy holds, waiting until it is no more than it was at first."""
        deadline = time.monotonic() + REST_SECONDS
        await asyncio.sleep(4)
        sample = await self.proxy.sample()
        while time.monotonic() < deadline and (least is None or _holds_more(sample, least)):
            await asyncio.sleep(0.5)
            sample = await self.proxy.sample()
            if least is None and not self.proxy.books.open_requests:
                break
        return sample


def _holds_more(sample: Sample, than: Sample) -> bool:
    return sample.fds > than.fds or sample.tasks > than.tasks


async def soak(options: Options, told: Told) -> Outcome:
    """Run it; the outcome's complaints say what is wrong."""
    async with _prepared(options) as everything:
        outcome, books = everything.outcome, everything.proxy.books
        await everything.load(lambda: books.sent < options.first_requests)
        outcome.before = await everything.rested()
        measuring = asyncio.create_task(everything.measure(told))
        end = time.monotonic() + options.seconds
        await everything.load(lambda: time.monotonic() < end and not measuring.done())
        measuring.cancel()
        await asyncio.wait([measuring])
        outcome.after = await everything.rested(outcome.before)
        outcome.store_faults = dict(everything.faults.made)
        outcome.complaints += complaints_about(outcome.samples, outcome.before, outcome.after)
        outcome.complaints += books.close(await everything.proxy.counted())
        if outcome.model.forgotten:
            outcome.complaints.append(f"{outcome.model.forgotten} upstream calls were forgotten")
    return outcome


@asynccontextmanager
async def _prepared(options: Options) -> AsyncIterator[Soak]:
    books = Books()
    brain = SoakModel(Random(options.seed), WINDOW)
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        async with (
            fake_model(polite) as model,
            soaked_proxy(model.url, Path(name), books) as proxy,
            store_faults(proxy.store, proxy.process.pid, Random(options.seed)) as faults,
        ):
            model.behaviour = forgetting(model, brain)
            yield Soak(options, proxy, faults, Outcome(books, brain), Plan(options))
