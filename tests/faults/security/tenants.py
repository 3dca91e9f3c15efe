"""Two tenants, what is kept for one of them, and what the other hears of it."""

from hashlib import sha256

from tests.support.live import Proxy, RawClient

ALICE, BOB = "sk-alice", "sk-bob"


def tenant_of(key: str) -> str:
    """The name under which the proxy keeps what belongs to a key."""
    return sha256(key.encode()).hexdigest()


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def kept(proxy: Proxy, key: str, text: str) -> str:
    """Keep a text for a tenant; return its path."""
    offloads = proxy.services.compaction.offloads
    name = offloads.id_of(tenant_of(key), text)
    assert await offloads.keep(tenant_of(key), {name: text}) == frozenset()
    return f"/v1/offload/{name}"


async def raw_get(client: RawClient, path: str, key: str) -> bytes:
    """Return the whole answer to a GET that nothing tidied up, without its date."""
    lines = [f"GET {path} HTTP/1.1", "host: proxy", f"authorization: Bearer {key}"]
    await client.send("\r\n".join([*lines, "x-request-id: same", "", ""]).encode("latin-1"))
    head = await client.reader.readuntil(b"\r\n\r\n")
    lower = [line for line in head.lower().split(b"\r\n") if not line.startswith(b"date:")]
    length = next(int(it[15:]) for it in lower if it.startswith(b"content-length:"))
    return b"\r\n".join(lower) + await client.reader.readexactly(length)
