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

WITH_IMAGE = RUN.replace('"$TASK"', '"$TASK @picture.png"')
os.execvp("bash", ["bash", "-euc", WITH_IMAGE if sys.argv[1] == "image" else RUN])
