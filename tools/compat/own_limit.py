"""How clients compact by themselves, for runs with their own limit near the proxy's trigger."""

import json
import re
from dataclasses import dataclass
from typing import Any

SHARES = (70, 85)
"""A client's own limit, in percent of the window."""
SUMMARY_TAG = "earlier-conversation"
DONE_SO_FAR = "The pages up to here are read. The task goes on with the next page."


@dataclass(frozen=True)
class OwnLimit:
    """How a client asks for its own compaction, what it wants to hear, and how large its run is."""

    set_by: str
    """What tells the client its limit."""
    words: str
    """A pattern that only its compaction request matches."""
    window: int
    page_tokens: int
    answer: str = DONE_SO_FAR
    steps: int = 60

    def is_in(self, value: Any) -> bool:
        """Whether a part of a request contains the client's compaction request."""
        return bool(re.search(self.words, json.dumps(value, ensure_ascii=False)))


def is_folded(body: Any) -> bool:
    """Whether a summary of the proxy is in a request."""
    return SUMMARY_TAG in json.dumps(body, ensure_ascii=False)


OWN_LIMITS = {
    "codex": OwnLimit(
        "`model_context_window` and `model_auto_compact_token_limit` in config.toml",
        "CONTEXT CHECKPOINT COMPACTION",
        window=24_576,
        page_tokens=1_500,
    ),
    "claude-code": OwnLimit(
        "`CLAUDE_CODE_MAX_CONTEXT_TOKENS` and `CLAUDE_CODE_MAX_OUTPUT_TOKENS`",
        "Your task is to create a detailed summary",
        window=65_536,
        page_tokens=1_500,
        answer=f"<analysis>Pages were read.</analysis>\n<summary>{DONE_SO_FAR}</summary>",
    ),
    "opencode": OwnLimit(
        "`limit` of the model in opencode.json",
        "Create a new anchored summary|Construct a new summary that combines both",
        window=32_768,
        page_tokens=2_000,
    ),
    "qwen-code": OwnLimit(
        "`contextWindowSize` and `autoCompactThreshold` in settings.json",
        "produce the <state_snapshot>",
        window=65_536,
        page_tokens=2_500,
        answer=f"<state_snapshot>{DONE_SO_FAR}</state_snapshot>",
    ),
    "cline": OwnLimit(
        "`contextWindow` of the provider in providers.json",
        "Summarize this session for continuation",
        window=49_152,
        page_tokens=2_000,
    ),
}
