"""LiteLLM's proxy."""

import json
import secrets

from bench.contenders import Contender, Place
from bench.peers.install import folder_of, install_from_pypi
from bench.servers import Launch
from bench.traffic.payloads import MODEL

LITELLM = "LiteLLM"
# The newest that installs: later ones need a certifi that PyPI does not have yet (2026-11-18).
LITELLM_VERSION = "1.106.2"

_LITELLM = folder_of(LITELLM, LITELLM_VERSION)
_NO_ACCESS_LOG = json.dumps(
    {
        "version": 1,
        "disable_existing_loggers": False,
        "loggers": {"uvicorn.access": {"level": "WARNING", "propagate": False}},
    }
)


def install_litellm() -> Contender:
    """Return the LiteLLM proxy, installed on first use."""
    install_from_pypi(_LITELLM, f"litellm[proxy]=={LITELLM_VERSION}")
    return Contender(LITELLM, LITELLM_VERSION, launch_litellm)


def launch_litellm(
    place: Place, model: str = MODEL, provider: str = "openai", summary_model: str | None = None
) -> Launch:
    """Start LiteLLM with one worker, no database and no request logs."""
    config = place.folder / f"litellm-{place.port}.yaml"
    config.write_text(_litellm_config(place, [model, *filter(None, [summary_model])], provider))
    if summary_model:
        with config.open("a") as settings:
            settings.write(f"  context_management_summary_model: {summary_model}\n")
    logs = place.folder / f"litellm-{place.port}-logs.json"
    logs.write_text(_NO_ACCESS_LOG)
    key = f"sk-{secrets.token_hex(32)}"  # it does not start without one
    address = ["--host", "127.0.0.1", "--port", str(place.port)]
    # More than 256 slow answers take longer than its five seconds between two requests.
    options = ["--num_workers", "1", "--keepalive_timeout", "75", "--log_config", str(logs)]
    return Launch(
        [str(_LITELLM / "bin/litellm"), "--config", str(config), *address, *options],
        place.port,
        ready_path="/health/readiness",
        environment={
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_LOG": "ERROR",
            "LITELLM_MASTER_KEY": key,
        },
        headers={"authorization": f"Bearer {key}"},
    )


def _litellm_config(place: Place, models: list[str], provider: str) -> str:
    listed = "".join(
        f"""
  - model_name: {model}
    litellm_params:
      model: {provider}/{model}
      api_base: {place.upstream_url}/v1
      api_key: sk-bench"""
        for model in models
    )
    return f"""
model_list:{listed}
litellm_settings:
  telemetry: false
  set_verbose: false
  num_retries: 0
  callbacks: []
general_settings:
  disable_spend_logs: true
"""
