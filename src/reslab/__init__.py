"""reslab: build, train, examine, shrink and ship nets that go deep.

>>> import reslab
>>> net = reslab.create_model("resnet56", num_classes=10, shortcut="zero_pad")
>>> net.spec.depth
56

Names are loaded when first used: ``import reslab`` alone imports no torch.
"""

import importlib
from typing import Any

_WHERE = {
    "Recipe": "reslab.recipe",
    "ReslabError": "reslab.errors",
    "Trained": "reslab.train.trained",
    "create_model": "reslab.models.catalog",
    "deepen": "reslab.surgery.deepen",
    "evaluate": "reslab.train.trained",
    "fit": "reslab.train.fit",
    "list_models": "reslab.models.catalog",
    "load_model": "reslab.models.weights",
    "load_recipe": "reslab.recipe",
    "load_trained": "reslab.train.trained",
    "load_weights": "reslab.models.weights",
    "measure_cost": "reslab.models.cost",
    "predict": "reslab.deploy.predict",
    "residual_structure": "reslab.examine.structure",
    "resume": "reslab.train.fit",
    "save_weights": "reslab.models.weights",
    "state_dict_for": "reslab.models.weights",
}

__version__ = "0.1.0"
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'reslab' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
