"""The same chat with other facts in other words, which no rule of the notes was made with.

If a rule or a weight is ever changed because of them, they must be replaced.
"""

import re
from typing import Final

from tools.small_model.story import FACTS, USER, Fact

_SENTENCE_END = re.compile(r"(?<=[.!?]) ")
_SAID: Final = {
    1: ("People around here know me as Marta Ekholm.", ("Marta Ekholm",)),
    2: ("Peanuts make my throat swell, so they are out of the question.", ("peanuts", "throat")),
    3: ("Everything happens in the second week of August.", ("second week", "August")),
    4: ("The insurance papers expire at the end of October.", ("insurance", "October")),
    6: ("All in all we can spend 2,900 crowns.", ("2,900", "crowns")),
    8: ("There are 19 of us who carry things.", ("19", "carry")),
    9: ("My daughter Signe cannot stand coriander.", ("Signe", "coriander")),
    10: ("The van costs 60 a day.", ("van", "60")),
    11: ("The generator gives out above 2 kilowatts.", ("generator", "2 kilowatts")),
    13: ("I would much rather have slow songs than fast ones.", ("slow songs",)),
    14: ("Children have to be home before nine.", ("home", "nine")),
    15: ("Our address is private and should stay out of all letters.", ("address", "private")),
    16: ("The parish owns 52 benches.", ("52 benches",)),
    18: ("So it will be the Holmgren mill after all.", ("Holmgren mill",)),
}

REWORDED_FACTS: Final = tuple(
    Fact(" ".join(words), turn, words) for turn, (_, words) in _SAID.items()
)


def _reworded(turn: int, text: str) -> str:
    """Return what the user says in a turn, with the other sentence for the one with the fact."""
    if turn not in _SAID:
        return text
    facts = [fact for fact in FACTS if fact.turn == turn]
    sentences = _SENTENCE_END.split(text)
    return " ".join(
        _SAID[turn][0] if any(fact.is_in([sentence]) for fact in facts) else sentence
        for sentence in sentences
    )


REWORDED: Final = tuple(_reworded(turn, text) for turn, text in enumerate(USER, 1))
"""What the user says, turn by turn."""
