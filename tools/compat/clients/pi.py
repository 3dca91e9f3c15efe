"""pi, headless; `python pi.py SCENARIO` runs these lines in a shell."""

import os
import sys

# configuration
RUN = r"""
mkdir -p ~/.pi/agent
cat > ~/.pi/agent/models.json << END
{
  "providers": {
    "local": {
      "api": "openai-completions",
      "baseUrl": "$PROXY",
      "apiKey": "$KEY",
      "models": [{"id": "$MODEL", "input": ["text", "image"]}]
    }
  }
}
END
pi --provider local --model "$MODEL" --print "$TASK"
"""
# end of configuration

WITH_IMAGE = RUN.replace('"$TASK"', '@picture.png "$TASK"')
os.execvp("bash", ["bash", "-euc", WITH_IMAGE if sys.argv[1] == "image" else RUN])
