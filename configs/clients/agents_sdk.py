"""OpenAI's Agents SDK by the Responses API: `python agents_sdk.py "What to do"`."""

import sys

from agents import Agent, AsyncOpenAI, OpenAIResponsesModel, Runner, set_tracing_disabled

set_tracing_disabled(True)  # traces would go to OpenAI
client = AsyncOpenAI(base_url="http://127.0.0.1:8100/v1", api_key="your-key")
agent = Agent("assistant", model=OpenAIResponsesModel("your-model", client))

if __name__ == "__main__":
    sys.stdout.write(f"{Runner.run_sync(agent, sys.argv[1], max_turns=200).final_output}\n")
