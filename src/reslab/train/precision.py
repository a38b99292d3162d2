"""Device, arithmetic and compilation: what the hardware is good at, chosen once, said once."""

import contextlib
import logging
import os
import shutil
from typing import Any

import torch
from torch import nn

from reslab.errors import UsageError

__all__ = ["autocast", "choose_device", "choose_precision", "compiled"]

_log = logging.getLogger("reslab")
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def choose_device(name: str) -> torch.device:
    """The device of that name; "auto" takes CUDA, then MPS, then the CPU."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UsageError(
            f"device {name!r} cannot be used here ({reason})", hint="Try --device auto."
        ) from error
    return device


def choose_precision(wanted: str, device: torch.device) -> str:
    """ "fp32", "bf16" or "fp16": as asked, or what the device computes fastest.

    On a CPU bf16 pays off where the hardware multiplies it (AMX, AVX512-BF16); emulated it
    measured slower than fp32 (benchmarks/RESULTS.md). fp16 needs a loss scaler and CUDA;
    elsewhere it is refused.
    """
    if wanted == "fp16" and device.type != "cuda":
        raise UsageError("precision fp16 needs CUDA", got=str(device), hint="Use bf16 or fp32.")
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    return "bf16" if device.type == "cpu" and _cpu_multiplies_bf16() else "fp32"


def _cpu_multiplies_bf16() -> bool:
    probes = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return any(getattr(torch.cpu, probe, bool)() for probe in probes)


def autocast(precision: str, device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """The context in which a forward pass runs in that precision."""
    if precision == "fp32":
        return contextlib.nullcontext()
    return torch.autocast(device.type, _DTYPES[precision])


def compiled(model: nn.Module, device: torch.device) -> nn.Module:
    """The model compiled for fixed shapes, or itself with one line of notice."""
    compiler = os.environ.get("CXX") or next(filter(shutil.which, ("g++", "clang++")), None)
    if device.type == "cpu" and not compiler:
        _log.warning("compile is off: no C++ compiler found (install g++ or clang++)")
        return model
    return torch.compile(model, dynamic=False)  # type: ignore[return-value]
