"""Write docs/troubleshooting.md from a running proxy: `python -m docs.troubleshooting`."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from tests.troubleshooting.catalogue import SITUATIONS, Situation
from tests.troubleshooting.seen import Seen

PAGE = Path(__file__).parent / "troubleshooting.md"
HEAD = """\
# Troubleshooting

Every request that failed, cannot fit or was not compacted has its reason in one sentence: in the
log line, on `/dashboard`, and in the error body where the client can do something about it. The
lines below were written by a running proxy (`python -m docs.troubleshooting`; a test compares
them): do not edit. Times, ports and folders are examples.

"""
QUESTIONS = """\
## Questions

### My agent's prompt is larger than my window

Instructions and tool definitions are never cut. opencode's own prompt has about 8,800 tokens,
qwen-code's 12,000, Claude Code's 19,000; MCP servers add theirs. `x-chat-proxy-unfit` in the answer
and the `reason` in the log have the numbers; `chat-proxy explain FILE` has those of each tool.

1. Start the model with a larger window: vLLM's `--max-model-len`, `MAX_MODEL_LEN` in the compose
   file, llama.cpp's `--ctx-size`, Ollama's `num_ctx`. Twice the agent's own prompt is a good start.
2. Or switch off tools and MCP servers that you do not need.
3. If the window that the proxy knows is too small, `chat-proxy check-config` shows where it comes
   from; `--window` sets another.

### Why the pause?

A request that does not fit waits for the summary of its older messages. `server-timing` in the
answer and `(summary 13.2)` in the log line show how long. Usually a summary is prepared before it
is needed, and no request waits. It is awaited if a conversation is too long when the proxy first
sees it, if one step adds a large part of the window, or if the model is slow. What helps: a faster
`CHAT_PROXY_SUMMARY_MODEL`, a smaller `CHAT_PROXY_BUDGET_PREPARE` (it begins earlier), a larger
window. A waiting stream shows a sign of life every `CHAT_PROXY_SUMMARY_KEEP_ALIVE_SECONDS` (5).

### Why did it forget?

Old tool results and messages are left out when the window is full; [Long
conversations](long-conversations.md) says in which order. A click on the chat in `/dashboard`, or
`POST /v1/chat/explain`, shows what became of each message. Then:

* The window is smaller than you think: `x-chat-proxy-tokens-before` and the log's `window` show it.
* A tool result was cut: `CHAT_PROXY_TOOLS_RULES` keeps those of some tools whole.
* Images were left out: see [Images](vision.md), `CHAT_PROXY_VISION_KEEP_LAST_N_TURNS` first of all.
* The summary is poor: name a better `CHAT_PROXY_SUMMARY_MODEL`.

The originals are kept for `CHAT_PROXY_ARCHIVE_RETENTION_DAYS` (5); `GET /v1/offload/{id}` returns
them.

### nginx holds my stream back

Streams carry `x-accel-buffering: no`, which nginx obeys unless `proxy_ignore_headers
X-Accel-Buffering` is set; then set `proxy_buffering off`. Also set `proxy_http_version 1.1`, leave
`gzip` off for `text/event-stream`, and raise `proxy_read_timeout` above the model's time to think.
[Deployment](deploy.md#nginx) has a whole configuration. Other proxies have a setting of their own.
To find out who holds it back, send the same request with `curl -N` to the proxy's own port.

### The front end swallows `/compact`

Some front ends treat a message that begins with a slash as their own command. Put a space before
the slash if the front end lets it pass, or call `POST /v1/chat/compact`; see
[Connect a client](connect.md#compact-in-front-ends).
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(asyncio.run(page()), encoding="utf-8")


async def page() -> str:
    """Return the page, made of what each situation shows."""
    seen = [await situation.show() for situation in SITUATIONS]
    table = "\n".join(table_of(list(zip(SITUATIONS, seen, strict=True))))
    sections = (
        "\n".join(section_of(number, situation, shown))
        for number, (situation, shown) in enumerate(zip(SITUATIONS, seen, strict=True), 1)
    )
    return HEAD + table + "\n\n" + "\n\n".join(sections) + "\n\n" + QUESTIONS


def table_of(rows: list[tuple[Situation, Seen]]) -> Iterator[str]:
    """Yield the table of all situations."""
    yield "| | situation | the client gets | what helps |"
    yield "|---|---|---|---|"
    for number, (situation, seen) in enumerate(rows, 1):
        answer = seen.client[0] if seen.client else "no proxy" if is_refused(seen) else "answers"
        yield f"| [{number}](#{number}) | {situation.title} | {answer} | {situation.remedy} |"


def section_of(number: int, situation: Situation, seen: Seen) -> Iterator[str]:
    """Yield one situation with its lines."""
    yield f'<a id="{number}"></a>\n\n## {number}. {situation.title}\n'
    if seen.client:
        yield "The client gets:\n\n```text"
        yield from seen.client
        yield "```\n"
    yield "The proxy writes:\n\n```text"
    yield from seen.log
    yield "```\n"
    yield situation.remedy


def is_refused(seen: Seen) -> bool:
    """Return whether the proxy did not start."""
    return any(line.startswith("(exit code") for line in seen.log)


if __name__ == "__main__":
    main()
