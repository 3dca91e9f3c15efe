"""How many bytes of request bodies are held at once, so that memory stays bounded."""

from chat_proxy.errors import Overloaded


class Admission:
    """A budget of bytes that all running requests share."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.held_bytes = 0

    def take(self, size: int) -> None:
        """Reserve bytes or raise Overloaded; a lone request is never refused for its size."""
        if self.held_bytes and self.held_bytes + size > self._max_bytes:
            raise Overloaded(retry_after=1)
        self.held_bytes += size

    def give_back(self, size: int) -> None:
        """Return what was taken."""
        self.held_bytes -= size
