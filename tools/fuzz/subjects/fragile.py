"""A subject with a mistake, so that it can be seen that mistakes are found."""


def dislike_brackets(data: bytes) -> None:
    """Fail on a bracket."""
    if b"[" in data:
        raise ValueError("a bracket")
