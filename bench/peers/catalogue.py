"""The gateways of the field that `BENCH_PEERS=1` adds, in the order of the table."""

from collections.abc import Callable

from bench.contenders import Contender
from bench.peers.agentic_api import AGENTIC_API, install_agentic_api
from bench.peers.envoy import ENVOY, install_envoy
from bench.peers.headroom import HEADROOM, install_headroom
from bench.peers.litellm import LITELLM, install_litellm
from bench.peers.portkey import PORTKEY, install_portkey

PEERS: dict[str, Callable[[], Contender]] = {
    ENVOY: install_envoy,
    AGENTIC_API: install_agentic_api,
    PORTKEY: install_portkey,
    HEADROOM: install_headroom,
    LITELLM: install_litellm,
}
