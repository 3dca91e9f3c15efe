"""mini-swe-agent, headless; `python mini_swe_agent.py SCENARIO` runs these lines in a shell."""

import os

# configuration
RUN = r"""
export OPENAI_API_BASE=$PROXY OPENAI_API_KEY=$KEY
export MSWEA_CONFIGURED=true MSWEA_COST_TRACKING=ignore_errors
mini --model "openai/$MODEL" --yolo --exit-immediately --cost-limit 0 --task "$TASK"
"""
# end of configuration
os.execvp("bash", ["bash", "-euc", RUN])
