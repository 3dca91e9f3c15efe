"""Pictures before a small model that sees."""

import base64
import struct
import zlib
from functools import cache
from typing import Any

from tools.engine.client.asking import Answer, asking, asking_through_the_proxy
from tools.engine.client.conversing import Run, converse
from tools.engine.client.talk import SYSTEM, Talk
from tools.engine.client.wires import Messages
from tools.engine.findings import Finding, at_least, below, none_of, told
from tools.engine.serving import Engine

TURNS = 30
SIDES = (224, 336, 448, 560)


async def images(engine: Engine) -> list[Finding]:
    """Send one picture after the other, with the history of pictures limited and not."""
    before = await engine.refusals()
    async with asking_through_the_proxy(engine, SUMMARY_MAX_TOKENS="96") as asker:
        limited = await converse(asker, _turns(14), with_tools=False, words=Talk(16))
    async with asking_through_the_proxy(
        engine, SUMMARY_MAX_TOKENS="96", VISION_TRUNCATE_HISTORY="false"
    ) as asker:
        whole = await converse(asker, _turns(15), with_tools=False, words=Talk(17))
    refusals = await engine.refusals() - before
    return [
        none_of(f"{TURNS} turns with a picture each: errors seen by the client",
                len(limited.errors)),
        told("… largest prompt", limited.largest_prompt),
        below("… counting error, p95", limited.counting_error, 0.03),
        none_of("the same with `VISION_TRUNCATE_HISTORY=false`: errors", len(whole.errors)),
        told("… largest prompt", whole.largest_prompt),
        at_least("… requests with `age_media`", _with_aged_media(whole), 1),
        below("… counting error, p95", whole.counting_error, 0.03),
        told("… prompts that the engine refused, in both", f"{refusals:g}"),
        *await _too_large(engine),
    ]  # fmt: skip


async def _too_large(engine: Engine) -> list[Finding]:
    """Send one picture that is larger than the window."""
    question = [SYSTEM, shown("What is this?", 1500)]
    async with asking(engine.url, engine.model) as asker:
        direct = await asker.ask(question)
    async with asking_through_the_proxy(engine) as asker:
        proxied = await asker.ask(question)
    return [
        told("a picture of 1500 by 1500 without the proxy", f"{direct.status}: {_said(direct)}"),
        Finding("… through it", f"{proxied.status} ({','.join(proxied.stages)})", "200",
                proxied.status == 200),
    ]  # fmt: skip


def _said(answer: Answer) -> str:
    return answer.text.partition('"message":"')[2].partition('"')[0][:70]


def _with_aged_media(run: Run) -> int:
    return sum("age_media" in answer.stages for answer in run.answers)


def _turns(seed: int) -> list[Messages]:
    talk = Talk(seed)
    return [[shown(talk.prose(15), SIDES[n % len(SIDES)])] for n in range(TURNS)]


def shown(text: str, width: int, height: int | None = None) -> dict[str, Any]:
    """A user's words and a picture, a square without a height."""
    picture = {"type": "image_url", "image_url": {"url": _png(width, height or width)}}
    return {"role": "user", "content": [{"type": "text", "text": text}, picture]}


@cache
def _png(width: int, height: int) -> str:
    """A grey picture as a data URL."""
    rows = (b"\0" + bytes([128]) * 3 * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    file = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return "data:image/png;base64," + base64.b64encode(file).decode()
