"""`chat-proxy export`: the originals of compacted conversations, from the archive's files."""

import re
import sys
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from chat_proxy.cli.purge import tenant_of
from chat_proxy.cli.terminal.flags import sources_of
from chat_proxy.compaction.recall.export import as_jsonl, as_markdown
from chat_proxy.config.environment import read_settings
from chat_proxy.errors import BadConfiguration
from chat_proxy.store.archive.files import DIALOG

NAME_CHARS = 12
_DAY = re.compile(r"\d{4}-\d\d-\d\d\.jsonl", re.ASCII)


class Span(NamedTuple):
    """Consecutive archived messages: what they are called and what they continue."""

    tenant: str
    name: str
    after: str | None
    day: str
    messages: dict[int, dict[str, Any]]


def run(options: Namespace) -> int:
    """Run the command."""
    settings = read_settings(*sources_of(options))
    folder = settings.archive.dir / DIALOG
    if not folder.is_dir():
        raise BadConfiguration(f"export: there is no archive in {str(settings.archive.dir)!r}")
    tenant = None if options.tenant is None else tenant_of(options.tenant)
    spans = {it.name: it for it in spans_in(folder) if tenant in (None, it.tenant)}
    if options.conversation is None:
        return _list(spans)
    return _export(spans, options.conversation, options.format)


def spans_in(folder: Path) -> Iterator[Span]:
    """Yield the archived spans of all days, oldest first; damaged lines are left out."""
    for path in sorted(folder.iterdir()):
        if not _DAY.fullmatch(path.name):
            continue
        spans: dict[tuple[str, str], Span] = {}
        with path.open("rb") as lines:
            for line in lines:
                try:
                    fields = orjson.loads(line)
                    key = (fields["tenant"], fields["chain"])
                    index, message = fields["index"], fields["message"]
                except (orjson.JSONDecodeError, TypeError, KeyError):
                    continue
                span = spans.setdefault(key, Span(*key, fields.get("after"), path.stem, {}))
                span.messages[index] = message
        yield from spans.values()


def conversation_of(spans: dict[str, Span], last: Span) -> list[dict[str, Any]]:
    """Return the messages up to the end of a span, with all spans that it continues."""
    messages: dict[int, dict[str, Any]] = {}
    seen: set[str] = set()
    span: Span | None = last
    while span is not None and span.name not in seen:
        seen.add(span.name)
        messages = {**span.messages, **messages}
        span = spans.get(span.after) if span.after else None
    return [messages[index] for index in sorted(messages)]


def _list(spans: dict[str, Span]) -> int:
    """Print a line for each conversation: the newest of its spans."""
    continued = {it.after for it in spans.values()}
    for span in spans.values():
        if span.name not in continued:
            count = len(conversation_of(spans, span))
            name, tenant = span.name[:NAME_CHARS], span.tenant[:NAME_CHARS]
            sys.stdout.write(f"{name}  {span.day}  tenant {tenant}  {count:,} messages\n")
    if not spans:
        sys.stderr.write("chat-proxy: nothing is archived yet\n")
    return 0


def _export(spans: dict[str, Span], name: str, form: str) -> int:
    found = [it for it in spans.values() if name and it.name.startswith(name)]
    if len(found) != 1:
        problem = "no conversation" if not found else f"{len(found)} conversations"
        raise BadConfiguration(f"export: {problem} with a name that begins with {name[:64]!r}")
    messages = conversation_of(spans, found[0])
    if form == "markdown":
        today = datetime.now(UTC).date().isoformat()
        sys.stdout.write(f"# Conversation {found[0].name[:NAME_CHARS]}, exported {today}\n\n")
        sys.stdout.write(as_markdown(messages))
    else:
        sys.stdout.write(as_jsonl(messages))
    return 0
