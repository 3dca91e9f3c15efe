"""`make engine`: the proxy before real engines, and the figures as docs/engine.md."""

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from bench.machine import machine_facts
from tools.engine.client.wires import FORMS
from tools.engine.findings import Finding
from tools.engine.install import FOLDER, MODELS, PYTHON, ROOT, install, versions
from tools.engine.progress import say
from tools.engine.report import Facts, Results, Section, line, page
from tools.engine.scenarios.counting import counting, counting_told
from tools.engine.scenarios.discovery import discovery
from tools.engine.scenarios.endurance import (
    with_a_summary_model,
    with_its_own_summaries,
    without_the_proxy,
)
from tools.engine.scenarios.images import images
from tools.engine.scenarios.kinds import Kinds
from tools.engine.scenarios.leaving import disconnects
from tools.engine.scenarios.prefixes import prefix_cache
from tools.engine.scenarios.replaying import replay
from tools.engine.scenarios.templates import strict_template
from tools.engine.scenarios.wires.pictures import UNKNOWN_NAME, unknown_pictures, wire_pictures
from tools.engine.scenarios.wires.templates import strict_wires
from tools.engine.scenarios.wires.turns import WireTurns
from tools.engine.scenarios.wires.windows import unknown_window
from tools.engine.serving import Engine, Start, llama, running_engine, vllm
from tools.small_model.install import PACKAGES
from tools.small_model.install import install as install_small_model

PAGE: Final = ROOT / "docs" / "engine.md"
RESULTS: Final = FOLDER / "results.json"


class Scenario(Protocol):
    """Something that is tried on an engine."""

    __name__: str

    async def __call__(self, engine: Engine) -> list[Finding]:
        """Return what was found."""
        ...


@dataclass(frozen=True)
class Stand:
    """One engine and what is tried on it, by section."""

    start: Start
    scenarios: dict[str, tuple[Scenario, ...]]


_CALLS: Final = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
STANDS: Final = (
    Stand(
        llama(),
        {
            **{
                f"llama.cpp: a conversation by `{form.path}`": (
                    WireTurns(24, (form,), can_summarise=True),
                )
                for form in FORMS
            },
            "llama.cpp: a window that nobody tells": (unknown_window,),
            "llama.cpp: counts by kind": (Kinds(each=4, sizes=(1, 2, 3)),),
        },
    ),
    Stand(
        vllm("tekken", "tiny-tekken", *_CALLS),
        {
            "vLLM: conversations by three APIs": (WireTurns(24),),
            "vLLM: a window that nobody tells": (unknown_window,),
            "vLLM: counts by kind": (Kinds(each=12),),
            "Counting": (counting,),
        },
    ),
    Stand(
        vllm("vision", "qwen2-vl-tiny", UNKNOWN_NAME),
        {
            "vLLM: pictures by three APIs": (wire_pictures,),
            "vLLM: pictures of a model with an unknown name": (unknown_pictures,),
            "Pictures": (images,),
        },
    ),
    Stand(
        vllm("strict", "tiny-strict"),
        {
            "A strict chat template by three APIs": (strict_wires,),
            "A strict chat template": (strict_template,),
        },
    ),
    Stand(
        vllm("lenient", "tiny", *_CALLS),
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
)


async def run(stands: tuple[Stand, ...], only: Sequence[str], kept: Results) -> list[Section]:
    """Run what is asked for, one engine after the other, and keep what was found."""
    sections: list[Section] = []
    for stand in stands:
        wanted = {
            title: found
            for title, found in stand.scenarios.items()
            if not only or any(part in title for part in only)
        }
        if not wanted:
            continue
        say(f"starting {stand.start.kind} ({stand.start.name})")
        async with running_engine(stand.start) as engine:
            for title, scenarios in wanted.items():
                section = await _section(engine, title, scenarios)
                kept.add(section)
                sections.append(section)
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
    return Section(title, findings, machine_facts()["date"][:10])


def facts(stands: tuple[Stand, ...], missing: Sequence[str]) -> Facts:
    """Return what goes with the figures."""
    machine = machine_facts()
    described = f"{machine['cores']} cores ({machine['processor']}), Python {machine['python']}"
    started = {
        f"{stand.start.kind}, {stand.start.name}": " ".join(stand.start.command(8000)).replace(
            f"{ROOT}/", ""
        )
        for stand in stands
    }
    return Facts(machine["date"][:10], described, {**versions(), **PACKAGES}, started, missing)


def main() -> None:
    """Install what is missing, run, write the page, and fail if a wish was not fulfilled."""
    parser = argparse.ArgumentParser(prog="python -m tools.engine", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="WORDS",
        help="run the sections with this in their title; the page keeps the others as they were",
    )
    parser.add_argument("--page", type=Path, default=PAGE, help="where the page goes")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # engines are stopped then, too
    say(f"installing {PYTHON.relative_to(ROOT)} and {MODELS.relative_to(ROOT)}")
    install()
    install_small_model()
    kept = Results(RESULTS)
    sections = asyncio.run(run(STANDS, chosen.only, kept))
    titles = [title for stand in STANDS for title in stand.scenarios]
    chosen.page.write_text(
        page(facts(STANDS, kept.missing(titles)), kept.sections(titles)), encoding="utf-8"
    )
    failed = [finding for section in sections for finding in section.findings if not finding.holds]
    sys.exit(f"{len(failed)} figures are not what is wanted" if failed else None)


if __name__ == "__main__":
    main()
