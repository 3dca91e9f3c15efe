"""Codex with a provider called OpenAI, which it asks to compact; the lines run in a shell."""

import os
import sys

# configuration
RUN = r"""
mkdir -p ~/.codex
cat > ~/.codex/config.toml << END
model = "$MODEL"
model_provider = "local"
model_context_window = 24576
model_auto_compact_token_limit = 14000

[model_providers.local]
name = "OpenAI"
base_url = "$PROXY"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
END
export OPENAI_API_KEY=$KEY
codex exec --skip-git-repo-check --sandbox danger-full-access "$TASK"
"""
# end of configuration

WITH_IMAGE = RUN.replace('"$TASK"', '--image picture.png -- "$TASK"')
os.execvp("bash", ["bash", "-euc", WITH_IMAGE if sys.argv[1] == "image" else RUN])
