"""aider, headless; `python aider.py SCENARIO` runs these lines in a shell."""

import os
import sys

# configuration
RUN = r"""
export OPENAI_API_BASE=$PROXY OPENAI_API_KEY=$KEY
aider --model "openai/$MODEL" --yes-always --message "$TASK"
"""
# end of configuration

QUIET = "--no-git --analytics-disable --no-check-update --no-show-model-warnings --no-pretty"
RUN = RUN.replace("--yes-always", f"--yes-always {QUIET}")
AT_LENGTH = '--no-fancy-input --max-chat-history-tokens 1000000 < <({lines}; echo "$TASK")'
PAGE_BY_PAGE = r'for page in page-*.txt; do tr "\n" " " < $page; echo; done | head -n $STEPS'
PAGES_AT_ONCE = r'for tens in 0 1 2; do cat page-$tens[1-5].txt | tr "\n" " "; echo; done'
CAN_SEE = """
cat > .aider.model.metadata.json << END
{"openai/$MODEL": {
  "litellm_provider": "openai", "mode": "chat", "supports_vision": true,
  "max_tokens": 4096, "max_input_tokens": 100000, "max_output_tokens": 4096
}}
END
"""
INSTEAD = {
    "tools": RUN.replace('--message "$TASK"', AT_LENGTH.format(lines=PAGE_BY_PAGE)),
    "overflow": RUN.replace('--message "$TASK"', AT_LENGTH.format(lines=PAGES_AT_ONCE)),
    "image": CAN_SEE + RUN.replace("--message", "--file picture.png --message"),
}
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # noqa: TID251 - it would ask the internet
os.execvp("bash", ["bash", "-euc", INSTEAD.get(sys.argv[1], RUN)])
