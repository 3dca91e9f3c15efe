"""Headroom's proxy, as a plain relay or compressing."""

from bench.contenders import Contender, Place
from bench.peers.install import folder_of, install_from_pypi
from bench.servers import Launch

HEADROOM, HEADROOM_VERSION = "headroom", "0.42.0"

_HEADROOM = folder_of(HEADROOM, HEADROOM_VERSION)
# More than 256 slow answers take longer than its five seconds between two requests.
_HEADROOM_START = (
    "import uvicorn; from headroom.cli import main; begin = uvicorn.Config.__init__; "
    "uvicorn.Config.__init__ = lambda self, *given, **named:"
    " begin(self, *given, **{**named, 'timeout_keep_alive': 75}); main()"
)


def install_headroom() -> Contender:
    """Return headroom's proxy, installed on first use."""
    install_from_pypi(_HEADROOM, f"headroom-ai[proxy]=={HEADROOM_VERSION}")
    return Contender(HEADROOM, HEADROOM_VERSION, launch_headroom)


def launch_headroom(place: Place, *options: str) -> Launch:
    """Start headroom as a plain relay, or with options of its own; nothing is kept on disk."""
    address = ["--host", "127.0.0.1", "--port", str(place.port), "--no-http2"]
    quiet = ["--no-rate-limit", "--no-cache", "--no-telemetry", "--stateless"]
    upstream = ["--no-subscription-tracking", "--openai-api-url", place.upstream_url]
    return Launch(
        [
            *[str(_HEADROOM / "bin/python"), "-c", _HEADROOM_START, "proxy"],
            *[*address, *quiet, *upstream],
            *(options or ["--no-optimize"]),
        ],
        place.port,
        environment={
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
        },
    )
