# mypy: ignore-errors
# ruff: noqa: E402, F821
"""pydantic-ai by the Messages API; it does all that pydantic_ai.py does."""

from pathlib import Path

DRIVER = (Path(__file__).parent / "pydantic_ai.py").read_text(encoding="utf-8")
exec(DRIVER.partition("# configuration\n")[0])

ROOT = PROXY.removesuffix("/v1")  # Anthropic's clients add it themselves

# configuration
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

provider = AnthropicProvider(base_url=ROOT, api_key=KEY)
model = AnthropicModel(MODEL, provider=provider)
# end of configuration

exec(DRIVER.partition("# end of configuration\n")[2])
