"""The worked example of CONTRIBUTING is a family that works."""

import re
from pathlib import Path

import pytest
import torch

import reslab.models
from reslab.models import catalog
from reslab.models.catalog import FAMILIES, MODELS, create_model, known_options
from reslab.models.cost import measure_cost

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"


@pytest.fixture
def triple(tmp_path, monkeypatch):
    code = re.search(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)[1]
    (tmp_path / "triple.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(reslab.models, "__path__", [*reslab.models.__path__, str(tmp_path)])
    for registry in (FAMILIES, MODELS):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    catalog._read_families(tmp_path)
    return code


def test_one_file_is_a_whole_family(triple):
    body = [line for line in triple.split("}\n", 1)[1].splitlines() if line.strip()]
    assert len(body) < 40
    entry = MODELS.get("triple8")
    net = create_model("triple8")
    cost = measure_cost(net, entry.input_shape)
    assert (cost.parameters, cost.macs) == (entry.parameters, entry.macs)
    assert create_model("triple11", num_classes=3)(torch.randn(2, 3, 8, 8)).shape == (2, 3)
    assert "checkpoint_activations" in known_options("triple8")
