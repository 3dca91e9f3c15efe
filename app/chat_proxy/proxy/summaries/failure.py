"""The reason why no summary was written."""

from typing import Final

SENTENCES: Final = {
    "timeout": "the summary model did not answer in time.",
    "window": "the messages do not fit into the summary model's window.",
    "refused": "the summary model refused the request.",
    "unavailable": "the summary model cannot be reached or answers with errors.",
    "upstream_unavailable": "the summary model failed repeatedly and is not asked for a while.",
    "tenant_budget": "this key has used up its tokens for summaries; try again later.",
    "unable": "the summary model's answers were not usable lately; it is asked again in an hour.",
    "mistake": "the proxy made a mistake; its log says where.",
}


class SummaryFailed(Exception):
    """No summary was written; `reason` comes from a closed set, `said` are the upstream's words."""

    def __init__(self, reason: str, retry_after: float | None = None, said: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
        self.said = said

    @property
    def sentence(self) -> str:
        """The reason as the end of a sentence, with the upstream's own words."""
        fallback = f"the summary model gave no usable summary ({self.reason})."
        sentence = SENTENCES.get(self.reason, fallback)
        return f"{sentence[:-1]}: {self.said}" if self.said else sentence
