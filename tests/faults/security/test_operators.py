"""F15: what is for operators, on the port that everybody reaches."""

import httpx
import pytest

from tests.journeys.dashboard.talks import dashboard
from tests.support.live import http_client, running_proxy

pytestmark = pytest.mark.anyio

NOBODY = "http://127.0.0.1:1/v1"
GUARDED = ("/metrics", "/dashboard", "/dashboard/data", "/dashboard/events", "/dashboard/detail/1")
ABSENT = (
    "/docs",
    "/redoc",
    "/openapi.json",
    "/debug",
    "/admin",
    "/config",
    "/v1/load_lora_adapter",
    "/v1/chat/completions/test",
    "/test_connection",
    "/reload",
    "/tokenize",
)


async def test_f15_operations_need_the_admin_key_and_no_other() -> None:
    """F15: by the design on the same port, so each is guarded; the admin key is no client's."""
    keys = {"keys": "user", "admin_key": "admin"}
    async with running_proxy(NOBODY, auth=keys) as proxy, http_client(proxy) as client:
        for path in GUARDED:
            for headers in ({}, {"x-api-key": "user"}, {"authorization": "Bearer wrong"}):
                assert (await client.get(path, headers=headers)).status_code == 401, path
            assert (await client.get(f"{path}?key=admin")).status_code == 401
        answer = await client.get("/metrics", headers={"x-api-key": "admin"})
        as_client = await client.get("/v1/models", headers={"x-api-key": "admin"})

    assert answer.status_code == 200
    assert as_client.status_code == 401


async def test_f15_there_is_no_page_that_explains_runs_or_changes_anything() -> None:
    """F15: docs are off, and no endpoint runs code or tries a configuration."""
    async with running_proxy(NOBODY) as proxy, http_client(proxy) as client:
        for path in ABSENT:
            for method in ("GET", "POST"):
                assert (await client.request(method, path)).status_code == 404, path


async def test_f15_a_page_that_rebinds_its_name_to_this_machine_reads_nothing() -> None:
    """F15: without a key only local names lead to the dashboard, whatever the origin."""
    async with dashboard() as (_, client):
        there = await opened(client, host="evil.example:8100", origin="http://evil.example:8100")
        here = await opened(client, host="127.0.0.1:8100")

    assert there.status_code == 403
    assert there.json()["error"]["code"] == "strange_host"
    assert here.status_code == 200
    assert not [name for name in here.headers if name.startswith("access-control-")]


async def opened(client: httpx.AsyncClient, **headers: str) -> httpx.Response:
    return await client.get("/dashboard/data", headers=headers)
