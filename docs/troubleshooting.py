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

**My agent's prompt is larger than my window.** Instructions and tool definitions are never cut.
opencode's own prompt has about 8,800 tokens, qwen-code's 12,000, Claude Code's 19,000.
`x-chat-proxy-unfit` and the `reason` in the log tell the numbers. Start the model with a larger
window (`--max-model-len`), or switch tools off.

**Why the pause?** A request that does not fit waits for the summary of its older messages.
`server-timing` in the answer and `(summary 13.2)` in the log line tell how long. Usually a
summary is prepared before it is needed; a faster `CHAT_PROXY_SUMMARY_MODEL` shortens the wait. A
waiting stream shows a sign of life every `CHAT_PROXY_SUMMARY_KEEP_ALIVE_SECONDS`.

**Why did it forget?** `POST /v1/chat/explain` and a click on the chat in `/dashboard` show what
became of each message. The originals are kept for `CHAT_PROXY_ARCHIVE_RETENTION_DAYS`.

**nginx holds my stream back.** Streams carry `x-accel-buffering: no`, which nginx obeys unless
`proxy_ignore_headers` says otherwise; then set `proxy_buffering off`. Other proxies have a
setting of their own, see [deploy.md](deploy.md).

**The front end swallows `/compact`.** Some front ends treat a message that begins with a slash as
their own command. Call `POST /v1/chat/compact`, or put a space before the slash if the front end
keeps it.
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
