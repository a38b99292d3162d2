"""More depth, the same function: identity blocks put at the end of each stage.

This is the solution "by construction" of He 2015, section 1: a deeper net can copy the shallower
one and make its added layers the identity, so it need not have a higher training error.
"""

import copy
import dataclasses
from typing import Any

from torch import nn

from reslab.errors import ModelError
from reslab.models.catalog import Origin
from reslab.models.convnet import ConvNet
from reslab.models.resnet import ResNetSpec, build_block
from reslab.nn import init_dirac, init_zero_branches
from reslab.nn.shortcut import Zero

__all__ = ["deepen"]


def deepen(model: ConvNet, depths: tuple[int, ...]) -> ConvNet:
    """A copy of `model` with `depths` blocks per stage; same logits in evaluation mode.

    A plain block becomes the identity by Dirac convolutions and norms of mean 0 and scale 1; a
    residual one by a last norm of zero. Both rely on inputs that are not negative, as they are
    after the ReLU that ends every block of these nets. The added blocks are ready to train.

    Raises ModelError when `depths` does not fit the stages or would take blocks away.
    """
    if not isinstance(model.spec, ResNetSpec):
        raise ModelError("only post-activation ResNets and plain nets can be deepened here")
    _refuse(model.spec)
    before = model.spec.depths
    if len(depths) != len(before) or any(
        new < old for new, old in zip(depths, before, strict=True)
    ):
        raise ModelError(
            "a net can only be deepened", got=depths, expected=f"{len(before)} numbers >= {before}"
        )
    deeper = copy.deepcopy(model)
    deeper.spec = dataclasses.replace(model.spec, depths=tuple(depths))
    deeper.depth = deeper.spec.depth
    deeper.origin = _described(deeper.spec)
    for stage, width, added in zip(
        deeper.stages,
        model.spec.widths,
        (new - old for new, old in zip(depths, before, strict=True)),
        strict=True,
    ):
        assert isinstance(stage, nn.Sequential), "stages are sequences of blocks"
        stage.extend(_identity_block(deeper, width) for _ in range(added))
    return deeper.train(model.training)


def _refuse(spec: ResNetSpec) -> None:
    """ModelError for nets whose identity blocks would not be one."""
    needs = {"activation": "relu", "norm": "batch", "branch_scale": "none"}
    if spec.shortcut == "none":
        needs["squeeze"] = None  # type: ignore[assignment]
    for name, needed in needs.items():
        if getattr(spec, name) != needed:
            raise ModelError(
                f"a net with this {name} cannot be deepened without changing its function",
                got=getattr(spec, name),
                expected=needed,
            )


def _described(spec: ResNetSpec) -> Origin | None:
    """Name and options by which `create_model` builds the deeper net, where it can."""
    if spec.stem != "cifar" or len(set(spec.depths)) > 1 or spec.widths != (16, 32, 64):
        return None
    kept = ("block", "shortcut", "num_classes", "in_channels")
    options: dict[str, Any] = {"depth": spec.depth}
    for item in dataclasses.fields(spec):
        value = getattr(spec, item.name)
        if item.name in kept or (item.default is not dataclasses.MISSING and value != item.default):
            options[item.name] = value
    del options["stem"]
    return Origin("cifar_resnet", options)


def _identity_block(model: ConvNet, width: int) -> nn.Module:
    spec = model.spec
    out_channels = width * (spec.expansion if spec.block == "bottleneck" else 1)
    block = build_block(dataclasses.replace(spec, drop_path=0.0), out_channels, width)
    if isinstance(block.shortcut, Zero):
        if spec.block != "basic":
            raise ModelError(
                "a plain bottleneck block cannot be the identity: it narrows its input",
                got=spec.block,
                expected="basic",
            )
        init_dirac(block.branch)
    elif isinstance(block.shortcut, nn.Identity):
        init_zero_branches(block)
    else:
        raise ModelError(
            "a block with a projection on its shortcut is not the identity",
            got=spec.shortcut,
            hint="Deepen nets with identity shortcuts (A or B).",
        )
    return block.to(next(model.parameters()).device)
