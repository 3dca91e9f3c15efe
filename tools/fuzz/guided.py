"""`python -m tools.fuzz.guided TARGET …`: one target under atheris; the rest is libFuzzer's."""

import sys

import atheris  # type: ignore[import-untyped] # installed by make fuzz

from tools.fuzz.targets import TARGETS


def main() -> None:
    """Run the target until libFuzzer's own limits end it."""
    target = TARGETS[sys.argv.pop(1)]
    with atheris.instrument_imports(include=["chat_proxy"]):
        test = target.load()
    atheris.Setup(sys.argv, test)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
