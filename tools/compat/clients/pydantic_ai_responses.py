# mypy: ignore-errors
# ruff: noqa: E402, F821
"""pydantic-ai by the Responses API; it does all that pydantic_ai.py does."""

from pathlib import Path

DRIVER = (Path(__file__).parent / "pydantic_ai.py").read_text(encoding="utf-8")
exec(DRIVER.partition("# configuration\n")[0])

# configuration
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

model = OpenAIResponsesModel(MODEL, provider=OpenAIProvider(base_url=PROXY, api_key=KEY))
# end of configuration

exec(DRIVER.partition("# end of configuration\n")[2])
