class BadEntry(Exception):
    """An entry of the registry file is invalid; the message names the field and the reason."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
