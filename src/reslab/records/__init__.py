"""Results as plain frozen dataclasses with a JSON form and a schema version. No torch.

What measures returns these; what reports reads these; nothing else passes between the two.
Errors are in percent, 0 to 100; losses in nats; times in seconds.
"""

from reslab.records.exam import (
    ExamPart,
    ExamResult,
    Finding,
    Plot,
    Series,
    StretchRecord,
    UnitRecord,
)
from reslab.records.form import SCHEMA, from_json, to_json
from reslab.records.study import (
    ArmResult,
    Claim,
    CurvePoint,
    DeepenedResult,
    EvalResult,
    LayerNorm,
    StudyResult,
)

__all__ = [
    "SCHEMA",
    "ArmResult",
    "Claim",
    "CurvePoint",
    "DeepenedResult",
    "EvalResult",
    "ExamPart",
    "ExamResult",
    "Finding",
    "LayerNorm",
    "Plot",
    "Series",
    "StretchRecord",
    "StudyResult",
    "UnitRecord",
    "from_json",
    "to_json",
]
