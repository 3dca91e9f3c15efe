"""The engine's own prefix cache, with the proxy and without."""

from collections.abc import Iterable

from tests.support.fake_model import fake_model
from tests.support.summary_model import SummaryModel
from tools.engine.client.asking import Answer, Asker, asking, asking_through_the_proxy
from tools.engine.client.conversing import Run, converse
from tools.engine.client.talk import Talk
from tools.engine.client.wires import Messages
from tools.engine.findings import Finding, at_least, told
from tools.engine.serving import Engine

TURNS = 120
SESSION = 16
"""Turns that fit the window without the proxy."""


async def prefix_cache(engine: Engine) -> list[Finding]:
    """Compare what the cache serves of conversations that fit and of one that is folded."""
    async with asking(engine.url, engine.model) as asker:
        direct, counted_direct = await _counted(engine, asker, _sessions())
    async with (
        fake_model(SummaryModel()) as model,
        asking_through_the_proxy(engine, SUMMARY_BASE_URL=model.url, SUMMARY_MODEL="fake") as asker,
    ):
        folded, counted_folded = await _counted(engine, asker, [Talk(6).turns(TURNS)])
    ratio = 100 * folded.cached_share / direct.cached_share
    return [
        told(f"{TURNS // SESSION} times {SESSION} turns without the proxy: served from the cache",
             f"{direct.cached_share:.1%} of prompt tokens"),
        told(f"{TURNS} turns through the proxy, folded {len(folded.breaks)} times: between folds",
             f"{folded.cached_share:.1%}"),
        at_least("… in proportion to that without the proxy", round(ratio, 1), 90, " %"),
        at_least("… of what the request before had sent, in the same proportion",
                 round(100 * folded.kept_share / direct.kept_share, 1), 90, " %"),
        told("all requests, first ones and folds included: without the proxy, with it",
             f"{direct.whole_cached_share:.1%}, {folded.whole_cached_share:.1%}"),
        told("the same by `vllm:prefix_cache_hits` / `_queries`",
             f"{counted_direct:.1%}, {counted_folded:.1%}"),
    ]  # fmt: skip


def _sessions() -> list[Iterable[Messages]]:
    return [Talk(50 + number).turns(SESSION) for number in range(TURNS // SESSION)]


async def _counted(
    engine: Engine, asker: Asker, sessions: list[Iterable[Messages]]
) -> tuple[Run, float]:
    """Hold the conversations; return their answers, and the share by the engine's counters."""
    answers: list[Answer] = []
    names = ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")
    before = [await engine.figure(name) for name in names]
    for session in sessions:
        run = await converse(asker, session)
        answers += run.answers
    hits, queries = [
        await engine.figure(name) - old for name, old in zip(names, before, strict=True)
    ]
    return Run(answers), hits / queries
