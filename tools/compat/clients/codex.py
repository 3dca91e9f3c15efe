"""Codex, headless; `python codex.py SCENARIO` runs these lines in a shell."""

import os
import sys

# configuration
RUN = r"""
mkdir -p ~/.codex
cat > ~/.codex/config.toml << END
model = "$MODEL"
model_provider = "local"

[model_providers.local]
name = "local"
base_url = "$PROXY"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
END
export OPENAI_API_KEY=$KEY
codex exec --skip-git-repo-check --sandbox danger-full-access "$TASK"
"""
# end of configuration

LIMIT = "model_context_window = $WINDOW\nmodel_auto_compact_token_limit = $OWN_LIMIT\n"
if sys.argv[1] == "image":
    RUN = RUN.replace('"$TASK"', '--image picture.png -- "$TASK"')
if sys.argv[1].startswith("own-limit"):
    RUN = RUN.replace("model_provider =", f"{LIMIT}model_provider =")
os.execvp("bash", ["bash", "-euc", RUN])
