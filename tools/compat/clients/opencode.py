"""opencode, headless; `python opencode.py SCENARIO` runs these lines in a shell."""

import os
import sys

# configuration
RUN = r"""
cat > opencode.json << END
{
  "provider": {
    "local": {
      "npm": "@ai-sdk/openai-compatible",
      "options": {"baseURL": "$PROXY", "apiKey": "$KEY"},
      "models": {
        "$MODEL": {
          "attachment": true,
          "modalities": {"input": ["text", "image"], "output": ["text"]}
        }
      }
    }
  }
}
END
opencode run --model "local/$MODEL" "$TASK"
"""
# end of configuration

if sys.argv[1] == "image":
    RUN = RUN.replace('"$TASK"', '"$TASK" --file picture.png')
if sys.argv[1].startswith("own-limit"):
    # It leaves space for an answer below the window that it is told.
    LIMIT = '"limit": {"context": $((OWN_LIMIT + 4096)), "output": 4096},'
    RUN = RUN.replace('"attachment": true', f'{LIMIT} "attachment": true')
os.execvp("bash", ["bash", "-euc", RUN])
