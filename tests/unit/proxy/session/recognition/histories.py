"""Histories of clients, as they are recognised."""

from chat_proxy.chat.normal_form.volatile_blocks import VolatileBlocks
from chat_proxy.proxy.session.recognition.history import History, hashed_history
from tests.unit.chat.shapes import Fields, conversation, user

KEY = b"a scope's key".ljust(32, b".")
VOLATILE = VolatileBlocks(("env", "environment_details", "system-reminder"))


def history(*messages: Fields, key: bytes = KEY) -> History:
    """Return the history of a list of messages."""
    return hashed_history(conversation(*messages), VOLATILE, key)


def words(*messages: str) -> History:
    """Return the history of user messages, given by their words."""
    return history(*map(user, messages))
