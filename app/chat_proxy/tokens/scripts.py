"""The tokens of a text by script class, because vocabularies differ most in what scripts cost.

A tokenizer that needs 4 % more tokens for English may need 150 % more for Hindi. The classes of a
text are counted by the first bytes of its characters, and its tokens are divided among them in
proportion to what their characters usually cost. That is exact for a text in one script, and
costs a few per cent of the tokenizer's time.

The result is one integer, a profile: fields of 32 bits, the first with all tokens, the last with
what the text would cost more as a JSON string. Profiles are added like numbers.
"""

from struct import Struct
from typing import Final, NamedTuple

TOKENS_MASK: Final = 2**32 - 1


class Scripts(NamedTuple):
    """Tokens, or a factor, by script class."""

    latin: float
    """ASCII letters."""
    code: float
    """Line breaks and indentation."""
    digits: float
    symbols: float
    """Punctuation, signs and emoji."""
    accented: float
    """Latin letters beyond ASCII."""
    cjk: float
    """Chinese characters, also in Japanese."""
    kana: float
    hangul: float
    cyrillic: float
    greek: float
    arabic: float
    devanagari: float
    indic: float
    """Other scripts of India."""
    thai: float
    other: float
    """Hebrew, Armenian, Georgian and others."""


_FIELDS: Final = Struct(f"<{len(Scripts._fields) + 1}I")
_BYTES: Final = _FIELDS.size
_ESCAPES_SHIFT: Final = 32 * len(Scripts._fields)
_SHIFT: Final = {name: 32 * place for place, name in enumerate(Scripts._fields)}
# What a character usually costs in o200k, in hundredths of a token.
_WEIGHTS: Final = dict(
    zip(
        Scripts._fields,
        (25, 35, 95, 47, 105, 74, 66, 67, 31, 40, 35, 39, 43, 42, 45),
        strict=True,
    )
)

# Each byte that begins a character of interest becomes the mark of its class; letters, blanks and
# continuation bytes are dropped.
_MARKS: Final = {
    "digits": (b"0123456789",),
    "code": (b"\n",),
    "accented": (range(0xC2, 0xCE),),
    "greek": (range(0xCE, 0xD0),),
    "cyrillic": (range(0xD0, 0xD5),),
    "other": (range(0xD5, 0xD8), (0xE1, 0xEE)),
    "arabic": (range(0xD8, 0xE0),),
    "indic": ((0xE0,),),
    "cjk": (range(0xE3, 0xEA), (0xEF,)),
    "hangul": (range(0xEA, 0xEE),),
}
_MARK_OF: Final = {name: bytes((mark,)) for mark, name in enumerate(Scripts._fields)}
_DROPPED: Final = bytes(
    byte for byte in range(0xC0) if byte >= 0x80 or (chr(byte).isalpha() or byte <= 0x20)
).replace(b"\n", b"")
_BEYOND_ASCII: Final = tuple(
    (name, _MARK_OF[name])
    for name in ("accented", "greek", "cyrillic", "arabic", "cjk", "hangul", "indic", "other")
)
# Scripts that share their first byte with others are told apart by the second one.
_DEVANAGARI: Final = (b"\xe0\xa4", b"\xe0\xa5")
_THAI: Final = (b"\xe0\xb8", b"\xe0\xb9", b"\xe0\xba", b"\xe0\xbb")
_KANA: Final = (b"\xe3\x81", b"\xe3\x82", b"\xe3\x83")
_INDENT: Final = b"    "
_SAMPLED_ABOVE_CHARS: Final = 65_536  # the whole of a long text would hold the interpreter
_SAMPLE_CHARS: Final = 2_048


def _table() -> bytes:
    table = bytearray(_MARK_OF["symbols"] * 256)
    for name, groups in _MARKS.items():
        for group in groups:
            for byte in group:
                table[byte] = _MARK_OF[name][0]
    return bytes(table)


_TABLE: Final = _table()
_DIGIT: Final = _MARK_OF["digits"]
_SYMBOL: Final = _MARK_OF["symbols"]
_BREAK: Final = _MARK_OF["code"]
_LETTER_WEIGHT: Final = _WEIGHTS["latin"]
_CODE_WEIGHT: Final = _WEIGHTS["code"]
_DIGIT_WEIGHT: Final = _WEIGHTS["digits"]
_SYMBOL_WEIGHT: Final = _WEIGHTS["symbols"]


def profile_of(text: str, tokens: int) -> int:
    """Return the profile of a text that has so many tokens; a long one is sampled."""
    if len(text) > _SAMPLED_ABOVE_CHARS:
        text = "".join(
            [text[start : start + _SAMPLE_CHARS] for start in range(0, len(text), len(text) // 16)]
        )
    raw = text.encode("utf-8", "replace")
    marks = raw.translate(_TABLE, _DROPPED)
    if not marks or not tokens:
        return tokens
    digits, breaks = marks.count(_DIGIT), marks.count(_BREAK)
    letters = len(text) - len(marks) - raw.count(b" ")
    code = breaks + raw.count(_INDENT) if breaks else 0
    if letters and text.isascii():
        symbols = (len(marks) - breaks - digits) * _SYMBOL_WEIGHT
        code *= _CODE_WEIGHT
        digits *= _DIGIT_WEIGHT
        whole = letters * _LETTER_WEIGHT + code + digits + symbols
        escapes = breaks + (raw.count(b'"') + raw.count(b"\\") + 2 * raw.count(b"\t")) // 3
        return (
            tokens
            + (escapes << _ESCAPES_SHIFT)
            + (tokens * code // whole << 32)
            + (tokens * digits // whole << 64)
            + (tokens * symbols // whole << 96)
        )
    ascii_classes = [("code", code), ("digits", digits), ("symbols", marks.count(_SYMBOL))]
    profile = _divided(
        tokens, letters * _LETTER_WEIGHT, [*ascii_classes, *_beyond_ascii(raw, marks)]
    )
    return profile + (breaks + raw.count(b'"') // 3 << _ESCAPES_SHIFT)


def by_script(profile: int, tokens: int) -> tuple[int, ...]:
    """Return a profile's tokens of each class, in the order of `Scripts`, of so many tokens."""
    parts = _FIELDS.unpack(profile.to_bytes(_BYTES, "little"))[1:-1]
    return (tokens - sum(parts), *parts)


def escapes_in(profile: int) -> int:
    """Return by how many tokens a text grows as a JSON string, about: its escapes are tokens."""
    return profile >> _ESCAPES_SHIFT


def scaled(profile: int, tokens: int) -> int:
    """Return a profile of the same classes with another number of tokens."""
    total = profile & TOKENS_MASK
    if not total:
        return tokens
    parts = by_script(profile, total)[1:]
    return tokens + sum([part * tokens // total << 32 * n for n, part in enumerate(parts, 1)])


def _beyond_ascii(raw: bytes, marks: bytes) -> list[tuple[str, int]]:
    """Return the characters of each class beyond ASCII that a text has."""
    found = {name: chars for name, mark in _BEYOND_ASCII if (chars := marks.count(mark))}
    if "indic" in found:
        _move(found, "indic", "devanagari", sum(map(raw.count, _DEVANAGARI)))
        _move(found, "indic", "thai", sum(map(raw.count, _THAI)))
    if "cjk" in found:
        _move(found, "cjk", "kana", sum(map(raw.count, _KANA)))
    return list(found.items())


def _move(found: dict[str, int], source: str, target: str, chars: int) -> None:
    if chars:
        found[source] -= chars
        found[target] = chars


def _divided(tokens: int, letters: int, others: list[tuple[str, int]]) -> int:
    """Return the profile of tokens that are divided by weight; letters have what is left over.

    A text without letters leaves nothing over: its heaviest class has the rest.
    """
    weights = [(chars * _WEIGHTS[name], _SHIFT[name]) for name, chars in others if chars]
    whole = letters + sum([weight for weight, _ in weights])
    profile, rest = tokens, tokens
    for weight, shift in weights:
        part = tokens * weight // whole
        profile += part << shift
        rest -= part
    if not letters:
        profile += rest << max(weights)[1]
    return profile
