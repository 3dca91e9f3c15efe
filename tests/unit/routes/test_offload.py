"""`GET /v1/offload/{id}` gives an offloaded text to its tenant, and the same 404 to all others."""

from collections.abc import AsyncIterator
from hashlib import sha256

import httpx
import pytest

from tests.support.live import Proxy, RawAnswer, http_client, raw_client, running_proxy

pytestmark = pytest.mark.anyio

TEXT = "the whole output, ünïcode and <script>"
NOBODY = "http://127.0.0.1:1/v1"


def tenant_of(key: str) -> str:
    return sha256(key.encode()).hexdigest()


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def kept(proxy: Proxy, key: str) -> str:
    """Keep the text for a tenant; return its path."""
    offloads = proxy.services.compaction.offloads
    name = offloads.id_of(tenant_of(key), TEXT)
    assert await offloads.keep(tenant_of(key), {name: TEXT}) == frozenset()
    return f"/v1/offload/{name}"


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    async with running_proxy(NOBODY) as running:
        yield running


@pytest.fixture
async def client(proxy: Proxy) -> AsyncIterator[httpx.AsyncClient]:
    async with http_client(proxy) as connected:
        yield connected


async def test_a_tenant_gets_its_text(proxy: Proxy, client: httpx.AsyncClient) -> None:
    answer = await client.get(await kept(proxy, "alice"), headers=bearer("alice"))

    assert answer.status_code == 200
    assert answer.content == TEXT.encode()
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "private, no-store"
    assert "x-request-id" in answer.headers


async def test_head_tells_the_size_and_sends_nothing(
    proxy: Proxy, client: httpx.AsyncClient
) -> None:
    answer = await client.head(await kept(proxy, "alice"), headers=bearer("alice"))

    assert answer.status_code == 200
    assert answer.headers["content-length"] == str(len(TEXT.encode()))
    assert answer.content == b""


async def test_other_methods_are_refused(proxy: Proxy, client: httpx.AsyncClient) -> None:
    path = await kept(proxy, "alice")

    for method in ("POST", "PUT", "DELETE"):
        assert (await client.request(method, path, headers=bearer("alice"))).status_code == 405


async def test_nobody_can_tell_a_foreign_id_from_one_of_nobody(proxy: Proxy) -> None:
    """FAULTS F4, F11, F20."""
    foreign = await kept(proxy, "alice")
    paths = [
        foreign,
        "/v1/offload/" + "0" * 32,
        "/v1/offload/" + "0" * 31,
        "/v1/offload/" + foreign.removeprefix("/v1/offload/").upper() + "A",
        foreign + "/",
        "/v1/offload/",
        "/v1/offload/../../etc/passwd",
        "/v1/offload/%2e%2e%2fetc%2fpasswd",
        "/v1/offload/" + "%00" * 32,
        "/v1/offload/" + "x" * 300,
        "/v1/offload/CON",
    ]

    answers = [await raw_answer(proxy, path, "bob") for path in paths]

    assert answers[0].status == 404
    assert answers == [answers[0]] * len(paths)


async def raw_answer(proxy: Proxy, path: str, key: str) -> RawAnswer:
    """Ask by a client that does not tidy paths up."""
    async with raw_client(proxy) as client:
        lines = [f"GET {path} HTTP/1.1", "host: proxy", f"authorization: Bearer {key}"]
        await client.send("\r\n".join([*lines, "x-request-id: same", "", ""]).encode())
        answer = await client.answer()
    answer.headers.pop("date", None)
    return answer


async def test_without_the_proxy_s_key_nothing_is_told() -> None:
    async with running_proxy(NOBODY, auth={"keys": ["alice"]}) as proxy, http_client(proxy) as it:
        path = await kept(proxy, "alice")

        assert (await it.get(path)).status_code == 401
        assert (await it.get(path, headers=bearer("bob"))).status_code == 401
        assert (await it.get(path, headers=bearer("alice"))).text == TEXT


async def test_an_id_is_no_metric_s_label(proxy: Proxy, client: httpx.AsyncClient) -> None:
    path = await kept(proxy, "alice")
    await client.get(path, headers=bearer("alice"))

    figures = proxy.services.metrics.render().decode()

    assert 'route="/v1/offload/"' in figures
    assert path not in figures
