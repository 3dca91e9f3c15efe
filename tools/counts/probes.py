"""Print the tokens of the probes in each vocabulary, for `tokens/calibration/vocabulary_probes.py`.

Runs under the Python of `tools/counts/install.py`.
"""

from typing import Final

from chat_proxy.tokens.calibration.vocabulary_probes import PROBES
from chat_proxy.tokens.tiktoken_counter import load_encoding
from tools.counts.vocabularies import VOCABULARIES, Count, counting_in

_ENCODING: Final = "o200k_base"


def main() -> None:
    """Print one line for each vocabulary."""
    for name in VOCABULARIES:
        print(_line(repr(name).replace("'", '"'), counting_in(name)))
    encoding = load_encoding(_ENCODING)
    print(_line("EXACT", lambda text: len(encoding.encode_ordinary(text))))


def _line(name: str, count: Count) -> str:
    return f"    {name}: ({', '.join(str(count(probe)) for probe in PROBES)}),"


if __name__ == "__main__":
    main()
