"""Checkpoints that survive kills and full disks: atomic, checksummed, the last few kept.

A checkpoint is a torch file of tensors and plain values, read with `weights_only`. `index.json`
names the checkpoints with their SHA-256; one that does not match is passed over for the one before.
"""

import io
import logging
from pathlib import Path
from typing import Any

import torch

from reslab import files
from reslab.errors import RunError

__all__ = ["Checkpoints"]

_log = logging.getLogger("reslab")


class Checkpoints:
    """The checkpoints of one run folder."""

    def __init__(self, folder: Path, *, keep: int) -> None:
        self.folder, self.keep = folder, keep

    def save(self, state: dict[str, Any], iteration: int) -> Path:
        """Write a checkpoint; forget those beyond the last `keep`."""
        path = self.folder / f"iteration-{iteration:08d}.pt"
        buffer = io.BytesIO()
        torch.save(state, buffer)
        with files.write_atomic(path) as file:
            file.write(buffer.getbuffer())
        entry = {"file": path.name, "iteration": iteration, "sha256": files.sha256(path)}
        others = [e for e in self._entries() if e["iteration"] != iteration]
        kept = sorted([*others, entry], key=lambda e: e["iteration"])[-self.keep :]
        files.write_json(self.folder / "index.json", kept)
        for leftover in self.folder.glob(".iteration-*.tmp"):
            leftover.unlink(missing_ok=True)  # of a process that was killed while it wrote
        names = {e["file"] for e in kept}
        for old in self.folder.glob("iteration-*.pt"):
            if old.name not in names:
                old.unlink(missing_ok=True)
        return path

    def load_latest(self, device: torch.device) -> dict[str, Any] | None:
        """The newest checkpoint that is whole; None when none was written yet.

        Raises RunError when checkpoints were written but none of them is whole.
        """
        entries = self._entries()
        for entry in reversed(entries):
            path = self.folder / entry["file"]
            if path.is_file() and files.sha256(path) == entry["sha256"]:
                return torch.load(path, map_location=device, weights_only=True)
            _log.warning("%s is damaged or missing; falling back to the one before", path)
        if entries:
            raise RunError(
                f"no whole checkpoint is left in {self.folder}",
                hint="Start the run again in a new folder.",
            )
        return None

    def _entries(self) -> list[dict[str, Any]]:
        index = self.folder / "index.json"
        return files.read_json(index) if index.exists() else []
