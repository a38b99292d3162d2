"""Seeds and random states: everything random in reslab starts here."""

import hashlib
import random
from typing import Any

import numpy as np
import torch

__all__ = ["restore_random_state", "save_random_state", "seed_everything", "stable_seed"]


def stable_seed(*parts: object) -> int:
    """A 63-bit seed that depends on the parts alone, not on the process.

    >>> stable_seed(0, "order", 3) == stable_seed(0, "order", 3)
    True
    """
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def seed_everything(seed: int) -> None:
    """Seed torch (all devices), numpy and random."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def save_random_state(device: torch.device) -> dict[str, Any]:
    """The random state of torch on the CPU and on `device`, as tensors."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    if device.type == "mps":
        state["mps"] = torch.mps.get_rng_state()
    return state


def restore_random_state(state: dict[str, Any], device: torch.device) -> None:
    """Put back what `save_random_state` returned."""
    torch.set_rng_state(state["cpu"].cpu())
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"].cpu(), device)
    if device.type == "mps" and "mps" in state:
        torch.mps.set_rng_state(state["mps"].cpu())
