"""Prompts that the engine calls too long although the proxy believed that they fit."""

from typing import Any

from tools.engine.client.asking import asking, asking_through_the_proxy
from tools.engine.client.conversing import converse
from tools.engine.client.talk import SYSTEM, Talk, answered
from tools.engine.client.wires import Messages
from tools.engine.findings import Finding, at_least, none_of, told
from tools.engine.serving import Engine

TURNS = 60
FOREIGN = "मॉडल की खिड़की छोटी है और बातचीत बहुत लंबी है। "
"""Hindi: the tokenizer has learned none of it and needs several times the tokens we count."""


async def replay(engine: Engine) -> list[Finding]:
    """Let the proxy be wrong about the window, the count and the room for an answer."""
    return [
        *await _wrong_window(engine),
        *await _wrong_count(engine),
        *await _too_large_an_answer(engine),
    ]


async def _wrong_window(engine: Engine) -> list[Finding]:
    before = await engine.refusals()
    variables = {"BUDGET_CONTEXT_WINDOW": "6000", "SUMMARY_MAX_TOKENS": "96"}
    async with asking_through_the_proxy(engine, **variables) as asker:
        run = await converse(asker, Talk(10).turns(TURNS))
    return [
        none_of(f"window set to 6,000, {TURNS} turns: errors seen by the client", len(run.errors)),
        at_least("… answers after a replay", run.replays, 1),
        told("… prompts that the engine refused", f"{await engine.refusals() - before:g}"),
    ]


async def _wrong_count(engine: Engine) -> list[Finding]:
    """Learn to count on prose, then meet a history in a script that costs far more."""
    histories = [_foreign(size) for size in range(10, 40, 3)]
    async with asking(engine.url, engine.model) as asker:
        direct = [await asker.ask(history) for history in histories]
    async with asking_through_the_proxy(engine, SUMMARY_MAX_TOKENS="96") as asker:
        await converse(asker, Talk(11).turns(12), with_tools=False)
        proxied = [await asker.ask(history) for history in histories]
    refused = sum(answer.status != 200 for answer in direct)
    errors = sum(answer.status != 200 for answer in proxied)
    return [
        told(f"{len(histories)} histories in Hindi: refused without the proxy", refused),
        none_of("… errors seen by the client through the proxy", errors),
        at_least("… answers after a replay", sum("replay" in a.stages for a in proxied), 1),
    ]


def _foreign(size: int) -> Messages:
    turns: list[dict[str, Any]] = []
    for number in range(size):
        turns += [{"role": "user", "content": f"{number}: {FOREIGN}"}, answered("हाँ।")]
    return [SYSTEM, *turns, {"role": "user", "content": "मैंने क्या कहा?"}]


async def _too_large_an_answer(engine: Engine) -> list[Finding]:
    question = [SYSTEM, *Talk(12).question()]
    async with asking(engine.url, engine.model) as asker:
        direct = await asker.ask(question, max_tokens=5_000)
    async with asking_through_the_proxy(engine) as asker:
        proxied = await asker.ask(question, max_tokens=5_000)
    return [
        told("`max_tokens` 5,000, without the proxy", direct.status),
        Finding("… through it", f"{proxied.status} ({','.join(proxied.stages)})", "200",
                proxied.status == 200),
    ]  # fmt: skip
