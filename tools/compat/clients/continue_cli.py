"""Continue, headless; `python continue_cli.py SCENARIO` runs these lines in a shell."""

import os

# configuration
RUN = r"""
cat > config.yaml << END
name: local
version: 1.0.0
schema: v1
models:
  - name: local
    provider: openai
    model: $MODEL
    apiBase: $PROXY
    apiKey: $KEY
    roles: [chat]
    capabilities: [tool_use, image_input]
END
cn --config config.yaml --auto --print "$TASK"
"""
# end of configuration

os.execvp("bash", ["bash", "-euc", RUN])
