"""Resolves the dependencies: requirements.lock for the image, .ci/dev.lock for contributors."""

import subprocess
import sys
from pathlib import Path

OPTIONS = [
    "--generate-hashes",
    "--no-annotate",
    "--no-header",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--universal",
    "--python-version=3.11",
    "--quiet",
]
LOCKS = {
    "requirements.lock": ["--extra=redis", "--extra=images"],
    ".ci/dev.lock": ["--extra=redis", "--extra=images", "--extra=otel", "--extra=dev"],
}


def main() -> None:
    """Write both lock files, keeping what they pin unless `--upgrade` is given."""
    top = Path(__file__).parents[1]
    for name, extras in LOCKS.items():
        command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml"]
        command += [*OPTIONS, *extras, f"--output-file={name}", *sys.argv[1:]]
        subprocess.run(command, cwd=top, check=True)


if __name__ == "__main__":
    main()
