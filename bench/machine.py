"""What a reader must know about the machine before believing a figure."""

import os
import platform
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
        "python": platform.python_version(),
        "load_average_before": os.getloadavg()[0],
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
