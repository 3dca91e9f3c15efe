"""The vLLM project's gateway, in Rust."""

from bench.contenders import Contender, Place
from bench.peers.install import folder_of, install_from_pypi
from bench.servers import Launch

AGENTIC_API, AGENTIC_API_VERSION = "agentic-api", "0.9.0"

_AGENTIC_API = folder_of(AGENTIC_API, AGENTIC_API_VERSION)


def install_agentic_api() -> Contender:
    """Return the vLLM project's gateway, installed on first use."""
    install_from_pypi(_AGENTIC_API, f"agentic-api=={AGENTIC_API_VERSION}")
    return Contender(AGENTIC_API, AGENTIC_API_VERSION, launch_agentic_api)


def launch_agentic_api(place: Place) -> Launch:
    """Start the vLLM project's gateway; its conversations are kept in memory."""
    address = ["--gateway-host", "127.0.0.1", "--gateway-port", str(place.port)]
    upstream = ["--llm-api-base", place.upstream_url, "--llm-ready-interval-s", "1"]
    return Launch(
        [
            str(_AGENTIC_API / "bin/agentic-server"),
            *address,
            *upstream,
            "--db-url",
            "sqlite::memory:",
        ],
        place.port,
        ready_path="/health",
    )
