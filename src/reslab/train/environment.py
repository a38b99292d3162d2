"""What a run ran on: versions and hardware, for the record."""

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import reslab

__all__ = ["describe_environment"]


def describe_environment(device: torch.device) -> dict[str, Any]:
    """Versions, processor, memory, threads and device as plain values."""
    versions = {name: metadata.version(name) for name in ("torchvision", "numpy")}
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "reslab": reslab.__version__,
        "torch": str(torch.__version__),
        **versions,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "device": str(device),
    }
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
    return facts


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
