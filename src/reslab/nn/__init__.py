"""Parts of nets that know nothing of models: the block, shortcuts, merges, branches, initialisers."""

from reslab.nn.block import ResidualBlock
from reslab.nn.branch import basic_branch, bottleneck_branch
from reslab.nn.init import init_dirac, init_he, init_zero_branches
from reslab.nn.merge import Add, Concat, GatedMerge
from reslab.nn.shortcut import Identity, PadShortcut, Projection, Zero, build_shortcut

__all__ = [
    "Add",
    "Concat",
    "GatedMerge",
    "Identity",
    "PadShortcut",
    "Projection",
    "ResidualBlock",
    "Zero",
    "basic_branch",
    "bottleneck_branch",
    "build_shortcut",
    "init_dirac",
    "init_he",
    "init_zero_branches",
]
