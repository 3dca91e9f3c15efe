# mypy: ignore-errors
# ruff: noqa: E402, F821
"""LangGraph by the Responses API; it does all that langchain.py does."""

from pathlib import Path

DRIVER = (Path(__file__).parent / "langchain.py").read_text(encoding="utf-8")
exec(DRIVER.partition("# configuration\n")[0])

# configuration
from langchain_openai import ChatOpenAI

model = ChatOpenAI(base_url=PROXY, api_key=KEY, model=MODEL, use_responses_api=True)
# end of configuration

exec(DRIVER.partition("# end of configuration\n")[2])
