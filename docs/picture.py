"""Draw README's picture from a conversation that goes through a proxy: `python -m docs.picture`."""

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from chat_proxy.cli.demo import running_model
from chat_proxy.demo.model.model import DemoModel
from chat_proxy.demo.story.script import SYSTEM, TOOLS, log_of, turns
from tests.support.live import http_client, running_proxy

PICTURE = Path(__file__).parent / "assets" / "conversation.svg"
WINDOW = 4_096
WORDS_PER_SECOND = 2_000
MAX_TOKENS = 200
WIDTH, HEIGHT = 860, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 24, 20, 40
FONT = 'font-family="system-ui, sans-serif" font-size="14"'
GREY, BLUE, RED = "#6b7280", "#2563eb", "#dc2626"

Message = dict[str, Any]


class Point(NamedTuple):
    """One request: its tokens as the client sent it, and as the model received it."""

    before: int
    after: int


async def conversation(client: httpx.AsyncClient) -> list[Point]:
    """Send the demo's conversation; return the sizes of its requests."""
    messages: list[Message] = [{"role": "system", "content": SYSTEM}]
    points: list[Point] = []
    for turn in turns(WINDOW):
        messages.append(turn.message())
        while True:
            point, reply = await sent(client, messages)
            points.append(point)
            messages.append(reply)
            if not (calls := reply.get("tool_calls")):
                break
            messages += [result_of(call, turn.log_lines) for call in calls]
    return points


async def sent(client: httpx.AsyncClient, messages: list[Message]) -> tuple[Point, Message]:
    """Send one request; return its sizes and the model's message."""
    body = {"model": "demo", "messages": messages, "tools": TOOLS, "max_tokens": MAX_TOKENS}
    answer = await client.post("/v1/chat/completions", json=body)
    answer.raise_for_status()
    sizes = (answer.headers[f"x-chat-proxy-tokens-{name}"] for name in ("before", "after"))
    return Point(*map(int, sizes)), answer.json()["choices"][0]["message"]


def result_of(call: Message, lines: int) -> Message:
    """Return the result of a tool call: a log of that many lines."""
    path = json.loads(call["function"]["arguments"])["path"]
    return {"role": "tool", "tool_call_id": call["id"], "content": log_of(path, lines)}


def svg(points: list[Point]) -> str:
    """Return the picture."""
    top = max(point.before for point in points)
    width, height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(number: float, tokens: float) -> str:
        x = LEFT + width * number / (len(points) - 1)
        return f"{x:.1f},{HEIGHT - BOTTOM - height * tokens / top:.1f}"

    def text(place: str, words: str, colour: str, anchor: str = "start") -> str:
        x, y = place.split(",")
        return f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}">{words}</text>'

    last = len(points) - 1
    line = 'fill="none" stroke-width="2.5"'
    before = " ".join(at(number, point.before) for number, point in enumerate(points))
    after = " ".join(at(number, point.after) for number, point in enumerate(points))
    below = f"{at(0, 0)} {after} {at(last, 0)}"
    window = f"{at(0, WINDOW)} {at(last, WINDOW)}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f"<title>A conversation of {len(points)} requests against its window</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="white"/>',
        f'<polygon points="{below}" fill="{BLUE}" fill-opacity="0.15"/>',
        f'<polyline points="{before}" {line} stroke="{GREY}" stroke-dasharray="6 4"/>',
        f'<polyline points="{window}" {line} stroke="{RED}"/>',
        f'<polyline points="{after}" {line} stroke="{BLUE}"/>',
        text(at(last, WINDOW * 1.12), f"the model's window: {WINDOW:,} tokens", RED, "end"),
        text(at(last * 0.66, top * 0.78), "what the client sends", GREY, "end"),
        text(at(last * 0.52, WINDOW * 0.12), "what the model receives", BLUE, "middle"),
        text(f"{LEFT - 8},{HEIGHT - BOTTOM + 4}", "0", GREY, "end"),
        text(f"{LEFT - 8},{TOP + 8}", f"{top:,}", GREY, "end"),
        text(f"{LEFT},{HEIGHT - 14}", "request 1", GREY),
        text(f"{WIDTH - RIGHT},{HEIGHT - 14}", f"request {len(points)}", GREY, "end"),
        "</svg>\n",
    ]
    return "\n".join(lines)


async def main() -> None:
    """Run the conversation and draw it."""
    with running_model(DemoModel(WINDOW, words_per_second=WORDS_PER_SECOND)) as model_url:
        limits = {"max_bytes": WINDOW}
        async with running_proxy(model_url, tools=limits) as proxy, http_client(proxy) as client:
            points = await conversation(client)
    PICTURE.write_text(svg(points), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
