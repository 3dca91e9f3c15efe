"""Recognising a vocabulary by the number of tokens that it makes of a few texts.

The name of a served model often tells nothing: `my-model`, `prod`, a path. An engine that tokenizes
texts on request tells more: no two of the vocabularies that we know make the same numbers of tokens
of these texts. They were counted with the families' own tokenizers by `tools/counts/probes.py`.
"""

from collections.abc import Sequence
from typing import Final

from chat_proxy.tokens.calibration.vocabularies import EXACT

_ENGLISH: Final = (
    "The harbour master's notebook, last opened in 1987, lists 46 ships and their captains; "
    "nobody\nhas counted the 1,203 crates since. "
    '"Unbelievable," she whispered, re-reading page 12.\n\n'
    "def slowest(rows: list[dict[str, float]], limit: int = 25) -> list[str]:\n"
    '    found = sorted(rows, key=lambda row: -row["seconds"])\n'
    "    for number, row in enumerate(found[:limit]):\n"
    "        if row.get('errors', 0) != 0 and not number % 2:\n"
    "            print(f\"{number:>4} {row['path']}\\t{row['seconds'] / 1e3:.2f} ms\")\n"
    '    return [str(row["path"]) for row in found][:limit]  # the first ones\n'
)
_CJK: Final = (
    "图书馆门口的那棵老槐树去年被台风吹断了一半,今年春天居然又长出了新叶。"
    "工程师们正在讨论怎样压缩历史消息。"
    "祖父の古い自転車は倉庫の奥で埃をかぶっていましたが、チェーンを交換したらまだ走れました。"
    "이번 겨울에는 눈이 거의 내리지 않아서 스키장 대부분이 일찍 문을 닫았다고 합니다."
)
_OTHERS: Final = (
    "Старый смотритель маяка каждое утро записывал в журнал погоду и количество проходящих судов. "
    "كان البائع العجوز يرتب الكتب المستعملة على الرصيف كل مساء "
    "ويحكي لزبائنه قصصا عن المدينة القديمة. "
    "पहाड़ी गाँव के बच्चे हर सुबह नदी पार करके पाठशाला जाते हैं और शाम को लकड़ियाँ लेकर लौटते हैं। "
    "\N{GREEK CAPITAL LETTER ETA} θάλασσα ήταν ήρεμη εκείνο το βράδυ. "
    "Größere Übungsräume fehlen; les élèves préfèrent l'été."
)
PROBES: Final = (_ENGLISH, _CJK, _OTHERS)
"""English with a program; Chinese, Japanese and Korean; Russian, Arabic, Hindi and others."""

TOKENS: Final[dict[str, tuple[int, int, int]]] = {
    "qwen": (176, 98, 211),
    "llama3": (169, 108, 153),
    "llama4": (169, 89, 117),
    "tekken": (182, 108, 124),
    "deepseek": (174, 97, 156),
    "cl100k": (169, 164, 261),
    "qwen3.5": (182, 80, 129),
    "smollm": (190, 276, 332),
    "sentencepiece": (204, 166, 283),
    "glm": (169, 103, 200),
    "kimi": (170, 106, 185),
    "gemma": (191, 85, 111),
    EXACT: (169, 104, 112),
}
"""The tokens of each probe in each vocabulary."""

RECOGNISED: Final = frozenset(TOKENS)

_TOLERANCE: Final = 0.02
"""By how much a variant of a vocabulary may differ: one with a few more tokens, or with a blank
before each text. Those of two families differ by 5 % in at least one probe."""


def vocabulary_with(tokens: Sequence[int]) -> str | None:
    """Return the vocabulary that makes about so many tokens of each probe, if we know it."""
    near = {
        vocabulary: sum(abs(ours - theirs) / ours for ours, theirs in zip(own, tokens, strict=True))
        for vocabulary, own in TOKENS.items()
        if all(
            abs(ours - theirs) <= _TOLERANCE * ours
            for ours, theirs in zip(own, tokens, strict=True)
        )
    }
    return min(near, key=near.__getitem__, default=None)
