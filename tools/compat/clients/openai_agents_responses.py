# mypy: ignore-errors
# ruff: noqa: E402, F821
"""OpenAI Agents SDK by the Responses API; it does all that openai_agents.py does."""

from pathlib import Path

DRIVER = (Path(__file__).parent / "openai_agents.py").read_text(encoding="utf-8")
exec(DRIVER.partition("# configuration\n")[0])

# configuration
from agents import AsyncOpenAI, OpenAIResponsesModel, set_tracing_disabled

set_tracing_disabled(True)
model = OpenAIResponsesModel(MODEL, AsyncOpenAI(base_url=PROXY, api_key=KEY))
# end of configuration

exec(DRIVER.partition("# end of configuration\n")[2])
