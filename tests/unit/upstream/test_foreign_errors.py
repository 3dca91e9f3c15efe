"""Foreign errors stop at the border: every one of httpx's and aiohttp's has a meaning here."""

import inspect
from collections.abc import Iterator

import aiohttp
import httpx
import pytest
from aiohttp import http_exceptions

from chat_proxy import errors
from chat_proxy.http.client import pool as transport
from chat_proxy.http.client.pool import AIOHTTP_ERRORS, raise_as_httpx
from chat_proxy.upstream import client
from chat_proxy.upstream.client import our_error


def all_below(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for child in kind.__subclasses__():
        yield child
        yield from all_below(child)


def bare(kind: type[BaseException]) -> BaseException:
    """An error of this kind, whatever its constructor wants."""
    return kind.__new__(kind)


HTTPX = sorted({httpx.TransportError, *all_below(httpx.TransportError)}, key=str)
AIOHTTP = sorted(
    {
        aiohttp.ClientError,
        *all_below(aiohttp.ClientError),
        http_exceptions.HttpProcessingError,
        *all_below(http_exceptions.HttpProcessingError),
        TimeoutError,
        OSError,
        ConnectionResetError,
        BrokenPipeError,
    },
    key=str,
)


@pytest.mark.parametrize("kind", HTTPX, ids=lambda kind: kind.__name__)
def test_every_transport_error_becomes_one_of_ours(kind: type[BaseException]) -> None:
    error = bare(kind)
    assert isinstance(error, httpx.TransportError)

    told = our_error(error)

    assert told.status in (502, 504)
    assert told.code != errors.UpstreamError.code, "it has no meaning of its own"


@pytest.mark.parametrize("kind", AIOHTTP, ids=lambda kind: kind.__name__)
def test_every_aiohttp_error_becomes_one_of_httpx(kind: type[BaseException]) -> None:
    error = bare(kind)

    with pytest.raises(httpx.TransportError) as told, AIOHTTP_ERRORS:
        raise error

    assert told.value.__cause__ is error


@pytest.mark.parametrize(
    ("foreign", "code"),
    [
        (aiohttp.ClientConnectorDNSError, "upstream_dns_error"),
        (aiohttp.ClientConnectorCertificateError, "upstream_tls_error"),
        (aiohttp.ClientConnectorSSLError, "upstream_tls_error"),
        (aiohttp.ClientConnectorError, "upstream_connect_error"),
        (aiohttp.InvalidURL, "upstream_connect_error"),
        (TimeoutError, "upstream_connect_timeout"),
        (aiohttp.ServerTimeoutError, "upstream_first_byte_timeout"),
        (aiohttp.ServerDisconnectedError, "upstream_reset"),
        (aiohttp.ClientPayloadError, "upstream_reset"),
        (aiohttp.ClientOSError, "upstream_reset"),
        (ConnectionResetError, "upstream_reset"),
        (http_exceptions.BadStatusLine, "upstream_invalid_response"),
        (http_exceptions.LineTooLong, "upstream_invalid_response"),
    ],
)
def test_what_happened_is_still_known_at_the_end(foreign: type[BaseException], code: str) -> None:
    with pytest.raises(httpx.TransportError) as told:
        raise_as_httpx(bare(foreign))

    assert our_error(told.value).code == code


def test_an_error_that_nobody_foresaw_is_still_one_of_ours() -> None:
    with pytest.raises(httpx.NetworkError) as told:
        raise_as_httpx(RuntimeError())

    assert our_error(told.value).code == "upstream_reset"


def test_other_errors_pass_the_border() -> None:
    with pytest.raises(KeyError), AIOHTTP_ERRORS:
        raise KeyError


@pytest.mark.parametrize("module", [client, transport])
def test_the_special_stands_before_the_general(module: object) -> None:
    kinds = [foreign for foreign, _ in vars(module)["_MEANINGS"]]

    for place, kind in enumerate(kinds):
        shadows = [earlier for earlier in kinds[:place] if issubclass(kind, earlier)]
        assert not shadows, f"{kind} is never reached"


def test_every_error_has_a_status_and_a_code_of_its_own() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    upstream = [kind for kind in kinds if issubclass(kind, errors.UpstreamError)]

    assert len({kind.code for kind in upstream}) == len(upstream)
