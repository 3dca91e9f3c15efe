"""Raw requests with parameters about context, for what no SDK would send."""

import json

import httpx

from tests.support.wires.messages_engines import Fields

BETAS = ["context-management-2025-06-27", "compact-2026-01-12", "compact-2026-09-04"]


def compact(**options: object) -> Fields:
    """The parameter that has Messages compacted from 1,500 tokens on."""
    trigger = {"type": "input_tokens", "value": 1_500}
    return {"edits": [{"type": "compact_20260112", "trigger": trigger, **options}]}


async def post(url: str, path: str, body: Fields | bytes) -> httpx.Response:
    """Send a request of one tenant with all betas."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"authorization": "Bearer sk-one", "anthropic-beta": ",".join(BETAS)}
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
        return await http.post(path, content=content, headers=headers)
