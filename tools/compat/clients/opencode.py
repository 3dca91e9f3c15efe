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

WITH_IMAGE = RUN.replace('"$TASK"', '"$TASK" --file picture.png')
os.execvp("bash", ["bash", "-euc", WITH_IMAGE if sys.argv[1] == "image" else RUN])
