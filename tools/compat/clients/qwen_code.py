"""qwen-code, headless; `python qwen_code.py SCENARIO` runs these lines in a shell."""

import os
import sys

# configuration
RUN = r"""
mkdir -p ~/.qwen
echo '{"model": {"generationConfig": {"modalities": {"image": true}}}}' > ~/.qwen/settings.json
export OPENAI_BASE_URL=$PROXY OPENAI_API_KEY=$KEY OPENAI_MODEL=$MODEL
qwen --auth-type openai --yolo --prompt "$TASK"
"""
# end of configuration

if sys.argv[1] == "image":
    RUN = RUN.replace('"$TASK"', '"$TASK @picture.png"')
if sys.argv[1].startswith("own-limit"):
    # It leaves 33,000 tokens below the window that it is told.
    LIMIT = """cat > ~/.qwen/settings.json << END
{
  "model": {"generationConfig": {"contextWindowSize": $((OWN_LIMIT + 33000))}},
  "context": {"autoCompactThreshold": 1}
}
END
"""
    RUN = RUN.replace("qwen --auth", f"{LIMIT}qwen --auth")
os.execvp("bash", ["bash", "-euc", RUN])
