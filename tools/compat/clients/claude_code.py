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
WITH_IMAGE = RUN.replace('"$TASK"', '"$TASK @picture.png"')
os.execvp("bash", ["bash", "-euc", WITH_IMAGE if sys.argv[1] == "image" else RUN])
