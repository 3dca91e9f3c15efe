"""Who does what a client asks of the server: the proxy, the upstream, or nobody is asked."""

from typing import Final, Literal
from urllib.parse import urlsplit

from chat_proxy.compaction.contracts.sealed import is_ours
from chat_proxy.wires.contracts.contract import Contract
from chat_proxy.wires.wire import Wire

Holder = Literal["proxy", "upstream", "none"]
Setting = Literal["auto", "proxy", "upstream"]

UPSTREAM_COMPACTS: Final = "Not compacted: the request asks the upstream to do it."


def contract_holder(
    setting: str, contract: Contract | None, *, is_hosted: bool, is_refused: bool
) -> Holder:
    """Return who keeps a contract.

    `is_hosted`: the upstream is known to do it itself. `is_refused`: it refused such a request
    before. A prompt that the proxy sealed can be read by nobody else.
    """
    if contract is None or contract.asks_nothing:
        return "none"
    if contract.sealed is not None and is_ours(contract.sealed):
        return "proxy"
    if setting != "auto":
        return "upstream" if setting == "upstream" else "proxy"
    return "upstream" if is_hosted and not is_refused else "proxy"


def is_hosted(base_url: str, wire: Wire) -> bool:
    """Return whether an upstream is an API that keeps the contracts of this wire itself."""
    host = (urlsplit(base_url).hostname or "").lower()
    return any(host == name or host.endswith(f".{name}") for name in wire.keeping_hosts)
