"""`GET /v1/chat/history/{id}`: the folded messages of a conversation, for its tenant only."""

import re

from chat_proxy.compaction.recall.export import as_jsonl, as_markdown
from chat_proxy.errors import NotFound
from chat_proxy.inline_or_thread import run_inline_or_in_thread
from chat_proxy.proxy.request_context import RequestContext
from chat_proxy.proxy.session.offloads import Offloads
from chat_proxy.proxy.session.stored_history import find_history
from chat_proxy.routes.front.asgi_client import AsgiClient

_ID = re.compile(r"[0-9a-f]{32}")
_BYTES_PER_MESSAGE = 1_000


class ChatHistory:
    """Returns histories; unknown ids, other tenants' ids and malformed ids all get 404."""

    route = "/v1/chat/history/"
    methods = frozenset({"GET", "HEAD"})

    def __init__(self, offloads: Offloads) -> None:
        self._offloads = offloads

    async def __call__(self, context: RequestContext, client: AsgiClient) -> None:
        """Return one history, as lines of JSON or with `?format=markdown` as text to read."""
        name, tenant = client.path.removeprefix(self.route), context.caller.tenant
        history = await find_history(tenant, name, self._offloads) if _ID.fullmatch(name) else None
        if history is None:
            raise NotFound
        is_markdown = context.query == b"format=markdown"
        write = as_markdown if is_markdown else as_jsonl
        size = len(history.messages) * _BYTES_PER_MESSAGE
        text = await run_inline_or_in_thread(lambda: write(history.messages), size)
        body, record = text.encode("utf-8", "replace"), context.record
        record.status = 200
        record.bytes_out = len(body)
        kind = b"text/markdown" if is_markdown else b"application/x-ndjson"
        headers = [
            (b"content-type", kind + b"; charset=utf-8"),
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"private, no-store"),
            (b"x-chat-proxy-expired-spans", b"%d" % history.expired),
            *record.response_headers(),
        ]
        await client.answer(200, headers, body)
