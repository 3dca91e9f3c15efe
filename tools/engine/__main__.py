"""`make engine`: the proxy before a real vLLM, and the figures as docs/engine.md."""

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bench.machine import machine_facts
from tools.engine.findings import Finding
from tools.engine.install import MODELS, PYTHON, ROOT, install, versions
from tools.engine.progress import say
from tools.engine.report import Facts, Section, line, page
from tools.engine.scenarios.counting import counting, counting_told
from tools.engine.scenarios.discovery import discovery
from tools.engine.scenarios.endurance import (
    with_a_summary_model,
    with_its_own_summaries,
    without_the_proxy,
)
from tools.engine.scenarios.images import images
from tools.engine.scenarios.leaving import disconnects
from tools.engine.scenarios.prefixes import prefix_cache
from tools.engine.scenarios.replaying import replay
from tools.engine.scenarios.templates import strict_template
from tools.engine.serving import Engine, command, running_engine

PAGE: Final = ROOT / "docs" / "engine.md"


class Scenario(Protocol):
    """Something that is tried on an engine."""

    __name__: str

    async def __call__(self, engine: Engine) -> list[Finding]:
        """Return what was found."""
        ...


@dataclass(frozen=True)
class Stand:
    """One engine and what is tried on it."""

    folder: str
    model: str
    flags: tuple[str, ...]
    scenarios: dict[str, tuple[Scenario, ...]]


_CALLS: Final = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
STANDS: Final = (
    Stand("tekken", "tiny-tekken", _CALLS, {"Counting": (counting,)}),
    Stand(
        "lenient",
        "tiny",
        _CALLS,
        {
            "The window": (discovery,),
            "Counting with a small vocabulary": (counting_told,),
            "Long conversations": (
                without_the_proxy,
                with_a_summary_model,
                with_its_own_summaries,
            ),
            "The prefix cache": (prefix_cache,),
            "Prompts that are too long": (replay,),
            "Clients that leave": (disconnects,),
        },
    ),
    Stand("strict", "tiny-strict", (), {"A strict chat template": (strict_template,)}),
    Stand("vision", "qwen2-vl-tiny", (), {"Pictures": (images,)}),
)


async def run(stands: tuple[Stand, ...], only: str) -> list[Section]:
    """Run what is asked for, one engine after the other."""
    sections: list[Section] = []
    for stand in stands:
        wanted = {title: found for title, found in stand.scenarios.items() if only in title}
        if not wanted:
            continue
        say(f"starting the {stand.folder} engine")
        async with running_engine(stand.folder, stand.model, *stand.flags) as engine:
            for title, scenarios in wanted.items():
                sections.append(await _section(engine, title, scenarios))
    return sections


async def _section(engine: Engine, title: str, scenarios: tuple[Scenario, ...]) -> Section:
    say(title)
    findings: list[Finding] = []
    for scenario in scenarios:
        began = time.monotonic()
        try:
            found = await scenario(engine)
        except Exception as error:  # noqa: BLE001 - what goes wrong is a finding too
            found = [Finding(scenario.__name__, repr(error)[:200], "an end", holds=False)]
        for finding in found:
            say(line(finding))
        findings += found
        say(f"   {time.monotonic() - began:.0f} s")
    return Section(title, findings)


def facts(stands: tuple[Stand, ...]) -> Facts:
    """Return what goes with the figures."""
    machine = machine_facts()
    described = f"{machine['cores']} cores ({machine['processor']}), Python {machine['python']}"
    started = {
        stand.folder: " ".join(command(stand.folder, stand.model, 8000, *stand.flags)).replace(
            f"{ROOT}/", ""
        )
        for stand in stands
    }
    return Facts(machine["date"][:10], described, versions(), started)


def main() -> None:
    """Install what is missing, run, write the page, and fail if a wish was not fulfilled."""
    parser = argparse.ArgumentParser(prog="python -m tools.engine", description=__doc__)
    parser.add_argument("--only", default="", help="sections with this in their title")
    parser.add_argument("--page", type=Path, help="where the page goes; docs/engine.md if whole")
    chosen = parser.parse_args()
    say(f"installing {PYTHON.relative_to(ROOT)} and {MODELS.relative_to(ROOT)}")
    install()
    sections = asyncio.run(run(STANDS, chosen.only))
    target = chosen.page or (PAGE if not chosen.only else None)
    if target:
        target.write_text(page(facts(STANDS), sections), encoding="utf-8")
    failed = [finding for section in sections for finding in section.findings if not finding.holds]
    sys.exit(f"{len(failed)} figures are not what is wanted" if failed else None)


if __name__ == "__main__":
    main()
