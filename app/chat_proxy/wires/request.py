"""A request of another wire than chat completions, read into the same conversation values."""

from chat_proxy.caches import cached_once
from chat_proxy.chat.body.parsed_body import ParsedBody
from chat_proxy.chat.body.request import ChatRequest
from chat_proxy.chat.conversation import Conversation
from chat_proxy.wires.reading import Fields, Reading
from chat_proxy.wires.wire import Wire


class WireRequest(ChatRequest):
    """A parsed request; its fields are those that chat completions would have."""

    def __init__(self, wire: Wire, parsed: ParsedBody, salt: int = 0) -> None:
        self.wire = wire
        self.own_fields: Fields = parsed.fields
        """The fields as the client sent them."""
        self.reading: Reading = wire.read(parsed.fields)
        super().__init__(parsed.body, self.reading.options, parsed.has_lone_surrogates, salt=salt)
        self.structure = parsed.structure

    @cached_once
    def fields(self) -> Fields:
        """The options and the messages in the words of chat completions."""
        return {**self.options, "messages": self.reading.messages}

    def _conversation(self) -> Conversation | None:
        return Conversation.of(self.reading.messages)
