"""Cline, headless; `python cline.py SCENARIO` runs these lines in a shell."""

import os
import sys

# configuration
RUN = r"""
cline auth --provider openai --apikey "$KEY" --modelid "$MODEL" --baseurl "$PROXY"
cline --auto-approve true "$TASK"
"""
# end of configuration

if sys.argv[1].startswith("own-limit"):
    # It compacts at 90 % of the window that it is told.
    SET = r"""cd ~/.cline/data/settings
sed -i "s/\"apiKey\":/\"contextWindow\": $((OWN_LIMIT * 10 / 9)), &/" providers.json
cd - > /dev/null
"""
    RUN = RUN.replace("cline --auto", f"{SET}cline --auto")
os.execvp("bash", ["bash", "-euc", RUN])
