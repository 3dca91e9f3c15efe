"""The bugs that others shipped and this proxy must not have, each with where it was seen.

A test belongs to a rule by its docstring: "BUGS 7: …", or "BUGS 1, 2 and 38" for several.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]

RULES = {
    1: "orphaned tool results after a cut (litellm#10696, deepagents#270, letta#935)",
    2: "parallel tool results half orphaned (langchain#38352, sudocode#546)",
    3: "a summary as a late system message, which templates refuse (vllm#41114, llama.cpp#27367)",
    4: "user and assistant no longer alternate, for good (hermes#74086, opencode#18998)",
    5: "a summary by the system leaves no other message (coder#22819)",
    6: "a summary by the assistant is echoed as its answer (hermes#42768)",
    7: "compaction in a loop (opencode#27924 #15533, codex#31351)",
    8: "nothing usable, so compaction after every step (opencode#45368 #49965)",
    9: "two compactions from stale usage or another order (opencode#27545, pi#1860)",
    10: "full again right after compacting (claude-code 2.1.89)",
    11: "prompt and answer of the summary call exceed the window (qwen-code#7960, kon#91)",
    12: "a trigger so late that the compaction itself does not fit (opencode#17340 #50574)",
    13: "vLLM's words for too long not understood (opencode#17762)",
    14: "a 429 taken for too long (pi#1038)",
    15: "an unknown window, so never compacted (oh-my-openagent#4184)",
    16: "base64 counted as text (open-webui#29761, tau#452)",
    17: "images under-counted, or few tokens and many bytes (codex#12717 #41338)",
    18: "Chinese counted as half of what it is (qwen-code#7963)",
    19: "reasoning_content dropped where it must come back (QwenPaw#6667, hermes#80246)",
    20: "reasoning that could not be folded was most of the mass (QwenPaw#7628)",
    21: "pruning wiped the prompt cache (opencode#32515)",
    22: "clearing just below the limit, so again in every turn (qwen-code#8464)",
    23: "the system prompt dropped (open-webui#26710)",
    24: "a turn that was cut inside lost its question (open-webui#27035)",
    25: "reasoning or tool protocol stored as the summary (open-webui#27604 #29308, kimi-code#766)",
    26: "a failed summary dropped history; an error became one (odysseus#2480, langchain#38867)",
    27: "the summary model never called (langchain#39261)",
    28: "the summariser went on with the conversation (opencode#42363)",
    29: "a summary in another language (opencode#20581)",
    30: "a summary that invents (claude-code#66857)",
    31: "the user's rules lost (claude-code#19471 #9796, codex#25792)",
    32: "the image of the current prompt compacted away (codegraff#585)",
    33: "recovery that freed nothing and was repeated (hermes#89938)",
    34: "PDFs left in the question for a summary (claude-code#26188)",
    35: "a summary call without a stream, killed by a gateway (qwen-code#5861)",
    36: "conversations taken for each other, one tenant's for another's (headroom#1808)",
    37: "a restart wiped what was kept; a note named a tool that was not there (headroom#1809)",
    38: "the current user turn replaced by a marker (litellm#35294)",
    39: "contents that are lists passed over, and told as done (litellm#34586, headroom#3561)",
    40: "cache_control moved (litellm c63e24b)",
    41: "the off switch ignored (OmniRoute#9200, opencode#30749)",
    42: "a message's name, id or metadata lost (openwebui-extensions#56)",
    43: "several summaries of one chat at once (openwebui-extensions#56)",
    44: "made-up ids that differ from build to build (codex#30327)",
    45: "a cache key without system or tools (headroom#1473)",
    46: "developer messages lost (codex#38445)",
    47: "tiktoken wants the network (tiktoken#394)",
    48: "the newest part, or the summary before it, dropped from a summary (QwenPaw, Codex)",
    49: "clients that leave before the first token wedge the proxy (litellm#13774 #22805 #30244)",
    50: "one tenant's cookie sent for another (the default clients)",
}

_NUMBERS = re.compile(r"BUGS (\d+(?:(?:,| and) (?:BUGS )?\d+)*)")


def named_rules() -> Iterator[tuple[int, str]]:
    """Yield every rule that a test names, with the test."""
    for file in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                place = f"{file.relative_to(TESTS)}::{node.name}"
                for number in numbers_in(ast.get_docstring(node) or ""):
                    yield number, place


def numbers_in(docstring: str) -> list[int]:
    """Return the rules that a docstring names."""
    lists = _NUMBERS.findall(docstring)
    return [int(number) for found in lists for number in re.findall(r"\d+", found)]
