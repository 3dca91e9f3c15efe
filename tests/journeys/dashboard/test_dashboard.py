"""The operator's page over HTTP: who sees it, under which headers, and what it is made of."""

import hashlib

import pytest

from chat_proxy.routes.dashboard.page_files import page_files
from chat_proxy.routes.front.browser_guard import is_local_name
from tests.journeys.dashboard.talks import chat, dashboard
from tests.unit.chat.shapes import user

pytestmark = pytest.mark.anyio

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
ADMIN = {"authorization": "Bearer boss"}
UPLOT_SHA256 = "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"


async def test_every_answer_has_the_security_headers() -> None:
    """F16."""
    paths = [
        "",
        "/",
        "/data",
        "/detail/x-1",
        "/nothing",
        "/%2e%2e/x",
        "x",
        *map("/{}".format, page_files()),
    ]
    async with dashboard() as (_, client):
        for path in paths:
            for method in ("GET", "HEAD", "POST", "DELETE"):
                answer = await client.request(method, f"/dashboard{path}")

                assert answer.headers["content-security-policy"] == POLICY, path
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert answer.headers["cache-control"] == "no-store"
                assert answer.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}])
async def test_without_the_admin_key_there_is_only_the_form_for_it(headers: dict[str, str]) -> None:
    """F15."""
    async with dashboard(auth={"admin_key": "boss"}) as (_, client):
        for path in ("", "/data", "/events", "/detail/x-1", "/nothing"):
            answer = await client.get(f"/dashboard{path}", headers=headers)

            assert answer.status_code == 401, path
            assert answer.headers["content-security-policy"] == POLICY

        page = await client.get("/dashboard", headers=headers)
        assert "Admin key" in page.text


async def test_with_the_admin_key_it_is_open_under_any_name() -> None:
    async with dashboard(auth={"admin_key": "boss"}) as (_, client):
        for path in ("", "/data"):
            answer = await client.get(f"/dashboard{path}", headers={**ADMIN, "host": "a.example"})

            assert answer.status_code == 200


async def test_a_key_in_the_address_opens_nothing() -> None:
    async with dashboard(auth={"admin_key": "boss"}) as (_, client):
        assert (await client.get("/dashboard/data?key=boss")).status_code == 401


async def test_without_a_key_no_public_name_leads_to_it() -> None:
    """F15: a page that rebinds its own name to this machine reads nothing."""
    async with dashboard() as (_, client):
        answer = await client.get("/dashboard/data", headers={"host": "evil.example:8100"})

        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "strange_host"
        assert "CHAT_PROXY_AUTH_ADMIN_KEY" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("127.0.0.1", True),
        ("10.1.2.3", True),
        ("::1", True),
        ("localhost", True),
        ("proxy", True),
        ("a.localhost", True),
        ("gpu.local", False),
        ("gpu.internal", True),
        ("evil.example", False),
        ("127.0.0.1.nip.io", False),
    ],
)
def test_local_names_are_known(host: str, is_local: bool) -> None:
    assert is_local_name(host) is is_local


async def test_what_is_not_there_and_not_asked_rightly_is_refused() -> None:
    async with dashboard() as (_, client):
        assert (await client.get("/dashboard/nothing")).status_code == 404
        assert (await client.get("/dashboards")).status_code == 404
        assert (await client.get("/dashboard/detail/x-1")).status_code == 404
        assert (await client.post("/dashboard")).status_code == 405
        assert (await client.get("/dashboard/")).headers["location"] == "../dashboard"


async def test_a_dashboard_that_is_turned_off_is_not_there_and_keeps_nothing() -> None:
    async with dashboard(dashboard={"enabled": False}) as (proxy, client):
        await chat(client, user("hi"))

        assert (await client.get("/dashboard")).status_code == 404
        assert proxy.services.chat_log.history.rows() == []


def test_the_chart_library_is_the_published_one_with_its_licence() -> None:
    files = page_files()

    assert hashlib.sha256(files["uplot.js"].content).hexdigest() == UPLOT_SHA256
    assert b"The MIT License" in files["uplot.LICENSE.txt"].content


@pytest.mark.parametrize("name", [name for name in page_files() if name != "uplot.js"])
def test_no_file_makes_markup_of_text_or_asks_elsewhere(name: str) -> None:
    """F16: text nodes only, and nothing from outside."""
    text = page_files()[name].content.decode()

    for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "onclick="):
        assert word not in text
    outside = [part for part in text.split("http")[1:] if part.startswith(("://", "s://"))]
    assert all("www.w3.org/2000/svg" in part for part in outside) or name == "uplot.LICENSE.txt"
