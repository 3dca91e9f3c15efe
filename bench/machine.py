"""What a reader must know about the machine before believing a figure."""

import os
import platform
import sysconfig
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def machine_facts() -> dict[str, Any]:
    """Return the facts that go with every set of results."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "processor": _processor(),
        "system": platform.platform(),
        "python": f"{platform.python_version()}, {_build()}",
        "load_average_before": os.getloadavg()[0],
    }


def _build() -> str:
    """Say how the interpreter was built; what it does not tell may still be so."""
    options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    flags = str(sysconfig.get_config_var("PY_CORE_CFLAGS") or "")
    if "--enable-optimizations" in options or "-fprofile-use" in flags:
        return "built with profile-guided optimisation"
    return "no word of profile-guided optimisation in its build flags"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
