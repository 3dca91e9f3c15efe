"""The reason why no summary was written."""


class SummaryFailed(Exception):
    """No summary was written; `reason` comes from a closed set."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
