"""Foreign errors stop at the border: every one of httpx's and of the sockets' has a meaning."""

import inspect
import socket
import ssl
from collections.abc import Iterator

import httpx
import pytest

from chat_proxy import errors
from chat_proxy.http.client import dialler
from chat_proxy.http.client.answer_reader import NotHttp
from chat_proxy.http.client.connection import Connection
from chat_proxy.http.client.dialler import Dialler, TlsFailed, as_httpx, target_of
from chat_proxy.http.client.resolver import CachingResolver, NameNotResolved, look_up
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
SOCKETS = {
    TimeoutError: "upstream_connect_timeout",
    ssl.SSLError: "upstream_tls_error",
    ssl.SSLCertVerificationError: "upstream_tls_error",
    ssl.SSLEOFError: "upstream_tls_error",
    ConnectionRefusedError: "upstream_connect_error",
    ConnectionResetError: "upstream_connect_error",
    BrokenPipeError: "upstream_connect_error",
    socket.gaierror: "upstream_connect_error",
    OSError: "upstream_connect_error",
}


@pytest.mark.parametrize("kind", HTTPX, ids=lambda kind: kind.__name__)
def test_every_transport_error_becomes_one_of_ours(kind: type[BaseException]) -> None:
    error = bare(kind)
    assert isinstance(error, httpx.TransportError)

    told = our_error(error)

    assert told.status in (502, 504)
    assert told.code != errors.UpstreamError.code, "it has no meaning of its own"


@pytest.mark.parametrize(("foreign", "code"), SOCKETS.items())
def test_what_happened_is_still_known_at_the_end(foreign: type[OSError], code: str) -> None:
    told = as_httpx(foreign())

    assert our_error(told).code == code
    assert str(told) == foreign.__name__


@pytest.mark.parametrize(
    ("told", "code"),
    [
        (NameNotResolved, "upstream_dns_error"),
        (TlsFailed, "upstream_tls_error"),
        (httpx.ConnectError, "upstream_connect_error"),
        (httpx.ConnectTimeout, "upstream_connect_timeout"),
        (httpx.ReadTimeout, "upstream_first_byte_timeout"),
        (httpx.ReadError, "upstream_reset"),
        (httpx.RemoteProtocolError, "upstream_reset"),
        (NotHttp, "upstream_invalid_response"),
    ],
)
def test_every_transport_error_has_its_own_meaning(
    told: type[httpx.TransportError], code: str
) -> None:
    assert our_error(told("")).code == code


async def dialled(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> Connection:
    """Dial an address whose connection fails so."""

    async def fail(*_: object, **__: object) -> socket.socket:
        raise error

    def new_connection() -> Connection:
        raise AssertionError("nobody is there to talk to")

    monkeypatch.setattr(dialler, "start_connection", fail)
    dialling = Dialler(CachingResolver(look_up, 1), ssl.create_default_context(), new_connection, 1)
    return await dialling.dial(target_of(httpx.URL("http://127.0.0.1:1")))


@pytest.mark.anyio
@pytest.mark.parametrize("kind", SOCKETS)
async def test_every_error_of_a_socket_becomes_one_of_httpx(
    kind: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = kind()

    with pytest.raises(httpx.TransportError) as told:
        await dialled(error, monkeypatch)

    assert told.value.__cause__ is error


@pytest.mark.anyio
async def test_other_errors_pass_the_border(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError):
        await dialled(KeyError(), monkeypatch)


@pytest.mark.anyio
async def test_a_name_without_an_address_is_no_failed_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the resolver raises passes as it is: it says more than that nobody answered."""
    with pytest.raises(NameNotResolved):
        await dialled(NameNotResolved("the name was not resolved"), monkeypatch)


@pytest.mark.parametrize("module", [client, dialler])
def test_the_special_stands_before_the_general(module: object) -> None:
    kinds = [foreign for foreign, _ in vars(module)["_MEANINGS"]]

    for place, kind in enumerate(kinds):
        shadows = [earlier for earlier in kinds[:place] if issubclass(kind, earlier)]
        assert not shadows, f"{kind} is never reached"


def test_every_error_has_a_status_and_a_code_of_its_own() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
    upstream = [kind for kind in kinds if issubclass(kind, errors.UpstreamError)]

    assert len({kind.code for kind in upstream}) == len(upstream)
