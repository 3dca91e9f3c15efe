"""llm; `python llm.py SCENARIO` runs these lines in a shell."""

import os
import sys

# configuration
RUN = r"""
mkdir -p ~/.config/io.datasette.llm
cat > ~/.config/io.datasette.llm/extra-openai-models.yaml << END
- model_id: local
  model_name: $MODEL
  api_base: $PROXY
  api_key_name: local
  supports_tools: true
  vision: true
END
llm keys set local --value "$KEY"
llm --model local "$TASK"
"""
# end of configuration

READ_PAGE = """
def read_page(number: int) -> str:
    "Read a page."
    return open(f"page-{number:02d}.txt").read()
"""
LAST = 'llm --model local "$TASK"'
INSTEAD = {
    "tools": f"llm --model local --functions '{READ_PAGE}' --chain-limit 0 \"$TASK\"",
    "image": 'llm --model local --attachment picture.png "$TASK"',
    "overflow": "cat page-0?.txt | llm --model local; "
    "cat page-1[0-8].txt | llm --model local --continue; "
    'llm --model local --continue "$TASK"',
}
os.execvp("bash", ["bash", "-euc", RUN.replace(LAST, INSTEAD.get(sys.argv[1], LAST))])
