"""Parts of nets that know nothing of models: the block and what it is made of.

Blocks, shortcuts, merges, branches and scales are here by name; activation orders, attention, gates,
recurrent cells, initialisers and reversible blocks in their modules.
"""

from reslab.nn.block import ResidualBlock
from reslab.nn.branch import basic_branch, bottleneck_branch
from reslab.nn.gates import closed_gates, find_gates, gate_activations
from reslab.nn.init import init_dirac, init_he, init_zero_branches
from reslab.nn.merge import Add, Concat, GatedMerge
from reslab.nn.scale import FixedScale, LayerScale, LearntScale, ScaledShortcut, deepnorm_factors
from reslab.nn.shortcut import Identity, PadShortcut, Projection, Zero, build_shortcut

__all__ = [
    "Add",
    "Concat",
    "FixedScale",
    "GatedMerge",
    "Identity",
    "LayerScale",
    "LearntScale",
    "PadShortcut",
    "Projection",
    "ResidualBlock",
    "ScaledShortcut",
    "Zero",
    "basic_branch",
    "bottleneck_branch",
    "build_shortcut",
    "closed_gates",
    "deepnorm_factors",
    "find_gates",
    "gate_activations",
    "init_dirac",
    "init_he",
    "init_zero_branches",
]
