"""The run folder: what is in it and how it is read back.

recipe.yaml          every value that decided the run
run.json             recipe, seeds, data sums, versions, hardware, timings, status, result
metrics.jsonl        training and evaluation records
tensorboard/         the same as event files
checkpoints/         the last few states
weights.safetensors  the final weights; best.safetensors those of the best evaluation
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reslab import files
from reslab.errors import RunError
from reslab.recipe import Recipe
from reslab.records import CurvePoint, EvalResult, from_json

__all__ = ["RunFolder"]


@dataclass(frozen=True)
class RunFolder:
    """Paths and records of one training."""

    path: Path

    @property
    def weights(self) -> Path:
        """Final weights."""
        return self.path / "weights.safetensors"

    @property
    def best(self) -> Path:
        """Weights of the evaluation with the lowest error."""
        return self.path / "best.safetensors"

    @property
    def metrics(self) -> Path:
        """Training and evaluation records, one JSON object a line."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    def exists(self) -> bool:
        """Whether a run was started here."""
        return (self.path / "run.json").is_file()

    def about(self) -> dict[str, Any]:
        """run.json; RunError when this is no run folder."""
        if not self.exists():
            raise RunError(
                f"{self.path} is no run folder: it has no run.json",
                hint="Give the folder that `reslab train --out` wrote.",
            )
        about = files.read_json(self.path / "run.json")
        if not isinstance(about, dict) or not {"status", "recipe"} <= about.keys():
            raise RunError(f"{self.path / 'run.json'} is not what a run writes", got=about)
        return about

    def write_about(self, about: dict[str, Any]) -> None:
        """Replace run.json, atomically."""
        files.write_json(self.path / "run.json", about)

    def recipe(self) -> Recipe:
        """The recipe of the run."""
        return Recipe().updated(self.about()["recipe"])

    def check_recipe(self, recipe: Recipe) -> None:
        """RunError, naming the first value that differs, when the run is of another recipe."""
        there = self.recipe()
        for key in Recipe.names():
            if getattr(there, key) != getattr(recipe, key):
                raise RunError(
                    f"{self.path} holds a run of another recipe ({key} is "
                    f"{getattr(there, key)!r} there)",
                    got=getattr(recipe, key),
                    hint="Choose another --out, or ask for the recipe that is there.",
                )

    def result(self) -> EvalResult | None:
        """The final scores; None while the run is not finished."""
        values = self.about().get("result")
        return from_json(EvalResult, values) if values else None

    def is_finished(self) -> bool:
        """Whether the run reached the end of its budget."""
        return self.exists() and self.about()["status"] == "finished"

    def curve(self) -> tuple[CurvePoint, ...]:
        """The evaluation points, in order."""
        keep = CurvePoint.__dataclass_fields__
        return tuple(
            CurvePoint(**{k: v for k, v in record.items() if k in keep})
            for record in files.read_jsonl(self.metrics)
            if record["kind"] == "eval"
        )
