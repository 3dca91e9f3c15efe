"""Show that a reorganisation only moved and renamed: `python -m tools.moves BEFORE AFTER`.

Every definition of the revision BEFORE (functions, classes with their methods, constants) is put
into its new module and under its new names by the map in `renames.toml`; then its syntax tree is
compared with the one in the revision AFTER. Docstrings, comments and imports do not count. Exits
with 1 if a definition differs, is missing, is new, or if two names have become one.
"""

import argparse
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

from tools.moves.definitions import Definition, definitions_in
from tools.moves.renames import Renames

MAP = Path(__file__).with_name("renames.toml")


def main() -> int:
    """Compare the two revisions and print what differs."""
    arguments = _arguments()
    renames = Renames(tomllib.loads(MAP.read_text()))
    before = _definitions_before(arguments.before, renames)
    after = _definitions_after(arguments.after, renames.package)
    changed = [key for key in before.keys() & after.keys() if before[key].tree != after[key].tree]
    problems = [
        *(f"differs: {_name(key)}" for key in sorted(changed)),
        *(f"missing: {_name(key)}" for key in sorted(before.keys() - after.keys())),
        *(f"new: {_name(key)}" for key in sorted(after.keys() - before.keys())),
        *(f"merged in {_name(key)}: {it.merged}" for key, it in before.items() if it.merged),
    ]
    for problem in problems:
        print(problem)
    kinds: Counter[str] = Counter()
    for definition in before.values():
        kinds.update(definition.kinds)
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    print(f"compared {len(before)} top-level definitions ({counted}): {len(problems)} differences")
    return 1 if problems else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", help="the revision with the old layout")
    parser.add_argument("after", help="the revision with the new layout")
    return parser.parse_args()


Key = tuple[str, str]


def _name(key: Key) -> str:
    return f"{key[0]}: {key[1]}"


def _definitions_before(revision: str, renames: Renames) -> dict[Key, Definition]:
    root = f"{renames.old_root}/"
    return {
        (it.module, it.name): it
        for file, text in _sources(revision, root)
        for it in definitions_in(text, renames.of_module(_module(file, root), file))
    }


def _definitions_after(revision: str, package: str) -> dict[Key, Definition]:
    root = f"app/{package}/"
    return {
        (it.module, it.name): it
        for file, text in _sources(revision, root)
        for it in definitions_in(text, Renames.nothing(_module(file, root)))
    }


def _module(file: str, root: str) -> str:
    return file.removeprefix(root).removesuffix(".py").replace("/", ".")


def _sources(revision: str, folder: str) -> list[tuple[str, str]]:
    names = _git("ls-tree", "-r", "--name-only", revision, folder).splitlines()
    return [(name, _git("show", f"{revision}:{name}")) for name in names if name.endswith(".py")]


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
