"""Row B4: certificates are verified, always."""

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from tests.faults.faulty import is_error
from tests.support.fake_model import fake_model, polite
from tests.support.live import RawAnswer, chat_request, raw_client, running_proxy

pytestmark = pytest.mark.anyio

YESTERDAY = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def context_of(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


async def answer_from(url: str, ca_file: Path | None) -> RawAnswer:
    async with (
        running_proxy(url, upstream={"ca_file": ca_file, "connect_timeout_seconds": 1}) as proxy,
        raw_client(proxy) as client,
    ):
        await client.send(chat_request())
        return await client.answer()


@asynccontextmanager
async def tls_model(certificate: trustme.LeafCert) -> AsyncIterator[str]:
    async with fake_model(polite, tls=context_of(certificate)) as model:
        yield model.url


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


async def test_b4_an_authority_of_one_s_own_is_trusted(
    authority: trustme.CA, ca_file: Path
) -> None:
    async with tls_model(authority.issue_cert("127.0.0.1")) as url:
        answer = await answer_from(url, ca_file)

    assert answer.status == 200


async def test_b4_a_certificate_for_another_name_is_refused(
    authority: trustme.CA, ca_file: Path
) -> None:
    async with tls_model(authority.issue_cert("other.example")) as url:
        answer = await answer_from(url, ca_file)

    assert is_error(answer, 502, "upstream_tls_error")


async def test_b4_an_expired_certificate_is_refused(authority: trustme.CA, ca_file: Path) -> None:
    certificate = authority.issue_cert("127.0.0.1", not_after=YESTERDAY)
    async with tls_model(certificate) as url:
        answer = await answer_from(url, ca_file)

    assert is_error(answer, 502, "upstream_tls_error")


async def test_b4_an_unknown_authority_is_refused(ca_file: Path) -> None:
    async with tls_model(trustme.CA().issue_cert("127.0.0.1")) as url:
        answer = await answer_from(url, ca_file)
        by_system = await answer_from(url, None)

    assert is_error(answer, 502, "upstream_tls_error")
    assert is_error(by_system, 502, "upstream_tls_error")


async def test_b4_a_port_without_tls_is_refused(ca_file: Path) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        answer = await answer_from(f"https://127.0.0.1:{port}/v1", ca_file)
    finally:
        server.close()

    assert is_error(answer, 502, "upstream_tls_error")
