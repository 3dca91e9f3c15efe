"""Claude Code, headless; `python claude_code.py SCENARIO` runs these lines in a shell."""

import os
import sys

# configuration
RUN = r"""
export ANTHROPIC_BASE_URL=$ROOT ANTHROPIC_API_KEY=$KEY ANTHROPIC_MODEL=$MODEL
export ANTHROPIC_DEFAULT_HAIKU_MODEL=$MODEL CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
claude --print --allowedTools Read,Bash -- "$TASK"
"""
# end of configuration

RUN = f"ROOT=${{PROXY%/v1}}\n{RUN}"  # it adds /v1 itself
if sys.argv[1] == "image":
    RUN = RUN.replace('"$TASK"', '"$TASK @picture.png"')
if sys.argv[1].startswith("own-limit"):
    # It leaves space for an answer and 13,000 tokens below the window that it is told.
    LIMIT = "export CLAUDE_CODE_MAX_OUTPUT_TOKENS=4096\n"
    LIMIT += "export CLAUDE_CODE_MAX_CONTEXT_TOKENS=$((OWN_LIMIT + 4096 + 13000))\n"
    RUN = f"{LIMIT}{RUN}"
os.execvp("bash", ["bash", "-euc", RUN])
