"""Cline, headless; `python cline.py SCENARIO` runs these lines in a shell."""

import os

# configuration
RUN = r"""
cline auth --provider openai --apikey "$KEY" --modelid "$MODEL" --baseurl "$PROXY"
cline --auto-approve true "$TASK"
"""
# end of configuration

os.execvp("bash", ["bash", "-euc", RUN])
