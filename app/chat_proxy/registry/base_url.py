"""The one form of an upstream's base URL."""

from pydantic import HttpUrl, TypeAdapter

_DEFAULT_PORTS = {"http": 80, "https": 443}


def checked_base_url(value: str) -> str:
    """Validate a base URL and complete a bare `http://host:port` with `/v1`, as clients expect."""
    url = TypeAdapter(HttpUrl).validate_python(value)
    if url.username or url.password or url.query or url.fragment:
        raise ValueError("must have no user name, password, query or fragment")
    path = (url.path or "").rstrip("/") or "/v1"
    port = "" if url.port in (None, _DEFAULT_PORTS[url.scheme]) else f":{url.port}"
    return f"{url.scheme}://{url.host}{port}{path}"
