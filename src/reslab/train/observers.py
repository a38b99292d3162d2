"""Who is told how a run goes: the metrics file, TensorBoard, and whoever passes an observer."""

from pathlib import Path
from typing import Any, Protocol

from reslab import files

__all__ = ["JsonLines", "Observer", "TensorBoard"]


class Observer(Protocol):
    """Told of each record of a run, then closed once, whatever happened.

    Records are plain dicts with `kind` and `iteration`: "train" (loss, error, lr,
    samples_per_second), "eval" (train_error, train_loss, test_error, test_loss, lr) and "start"
    (total, iteration).
    """

    def record(self, values: dict[str, Any]) -> None:
        """Take a record."""

    def close(self) -> None:
        """No more records come."""


class JsonLines:
    """metrics.jsonl: one record a line; a resumed run drops what lay after its checkpoint."""

    def __init__(self, path: Path, *, resumed_at: int) -> None:
        self.path = path
        kept = [r for r in files.read_jsonl(path) if r["iteration"] <= resumed_at]
        files.write_jsonl(path, kept if resumed_at else [])

    def record(self, values: dict[str, Any]) -> None:
        """Append the record."""
        if values["kind"] != "start":
            files.append_jsonl(self.path, values)

    def close(self) -> None:
        """Nothing is held open."""


class TensorBoard:
    """Event files that TensorBoard draws."""

    def __init__(self, folder: Path, *, resumed_at: int) -> None:
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=resumed_at + 1)

    def record(self, values: dict[str, Any]) -> None:
        """Write every number of the record as kind/name."""
        for name, value in values.items():
            if name != "iteration" and isinstance(value, int | float):
                self._writer.add_scalar(f"{values['kind']}/{name}", value, values["iteration"])

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()
