"""Where each message of a request body begins and ends, found by the standard library's parser."""

import json


def message_slices(body: bytes) -> list[slice]:
    """Return the offsets of each message in the body; the messages must be a top-level list."""
    text = body.decode("utf-8", "surrogatepass")
    start = _start_of_messages(text)
    decoder = json.JSONDecoder()
    found = []
    while text[start] != "]":
        _, end = decoder.raw_decode(text, start)
        found.append(slice(_offset(text, start), _offset(text, end)))
        start = end
        while text[start] in " \t\r\n,":
            start += 1
    return found


def _start_of_messages(text: str) -> int:
    """Return the index of the first message, or of the bracket that closes an empty list."""
    decoder = json.JSONDecoder()
    place = text.index("{") + 1
    while True:
        while text[place] in " \t\r\n,":
            place += 1
        name, place = decoder.raw_decode(text, place)
        place = text.index(":", place) + 1
        while text[place] in " \t\r\n":
            place += 1
        if name == "messages":
            place += 1
            while text[place] in " \t\r\n":
                place += 1
            return place
        _, place = decoder.raw_decode(text, place)


def _offset(text: str, index: int) -> int:
    return len(text[:index].encode("utf-8", "surrogatepass"))
