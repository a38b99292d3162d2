"""Every named net with its numbers, and the paper's beside them. Listing needs no torch.

The numbers are checked against the nets themselves by the tests. `create_model` builds by name;
any legal CIFAR depth works too: ``create_model("resnet26")``, ``create_model("plain38")``; 18, 34, 50,
101 and 152 mean ImageNet nets, and ``create_model("cifar_resnet", depth=50)`` the CIFAR one.
"""

import fnmatch
import importlib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reslab.errors import ModelError, UnknownNameError
from reslab.registry import Registry, close_names

if TYPE_CHECKING:
    from reslab.models.resnet import ResNet

__all__ = ["MODELS", "ModelEntry", "create_model", "list_models"]


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """A named net: how it is built, what it costs, what its paper says.

    `macs` are multiply-adds of one forward on one `input_shape` sample. `paper_macs` and
    `paper_parameters` are as printed; `paper_error` is the top-1 error in percent.
    """

    name: str
    family: str
    options: dict[str, Any] = field(default_factory=dict)
    depth: int
    parameters: int
    macs: int
    input_shape: tuple[int, int, int]
    paper_parameters: str = ""
    paper_macs: str = ""
    paper_error: str = ""
    source: str = ""


_FAMILIES = {
    "cifar_resnet": "reslab.models.cifar:build_cifar_resnet",
    "imagenet_resnet": "reslab.models.imagenet:build_imagenet_resnet",
}
_PLAIN = {"shortcut": "none"}

MODELS: Registry[ModelEntry] = Registry("model")


def _add_cifar() -> None:
    table = (  # He 2015, table 6: depth, parameters, MACs, printed parameters, test error %
        (20, 269_722, 40_551_040, "0.27M", "8.75"),
        (32, 464_154, 68_862_592, "0.46M", "7.51"),
        (44, 658_586, 97_174_144, "0.66M", "7.17"),
        (56, 853_018, 125_485_696, "0.85M", "6.97"),
        (110, 1_727_962, 252_887_680, "1.7M", "6.43"),
        (1202, 19_421_274, 2_829_238_912, "19.4M", "7.93"),
    )
    for depth, parameters, macs, printed, error in table:
        for kind, options in (("plain", _PLAIN), ("resnet", {})):
            if (kind, depth) == ("plain", 1202):
                continue
            MODELS.add(
                f"{kind}{depth}",
                ModelEntry(
                    name=f"{kind}{depth}",
                    family="cifar_resnet",
                    options={"depth": depth, **options},
                    depth=depth,
                    parameters=parameters,
                    macs=macs,
                    input_shape=(3, 32, 32),
                    paper_parameters=printed,
                    paper_error=error if kind == "resnet" else "> 60" if depth == 110 else "",
                    source="He 2015, table 6" if kind == "resnet" else "He 2015, fig. 6",
                ),
            )


def _add_imagenet() -> None:
    wide = {"width_factor": 2}
    x4, x8 = ({"groups": 32, "width_factor": factor} for factor in (2, 4))
    table_2, table_3 = "He 2015, tables 1, 2", "He 2015, tables 1, 3"
    rows: tuple[tuple[str, int, dict[str, Any], int, int, str, str, str], ...] = (
        ("plain18", 18, _PLAIN, 11_515_688, 1_794_805_760, "1.8G", "27.94", table_2),
        ("plain34", 34, _PLAIN, 21_623_848, 3_644_493_824, "3.6G", "28.54", table_2),
        ("resnet18", 18, {}, 11_689_512, 1_814_073_344, "1.8G", "", "He 2015, table 1"),
        ("resnet34", 34, {}, 21_797_672, 3_663_761_408, "3.6G", "24.52", table_3),
        ("resnet50", 50, {}, 25_557_032, 4_089_184_256, "3.8G", "22.85", table_3),
        ("resnet101", 101, {}, 44_549_160, 7_801_405_440, "7.6G", "21.75", table_3),
        ("resnet152", 152, {}, 60_192_808, 11_513_626_624, "11.3G", "21.43", table_3),
        ("resnext50_32x4d", 50, x4, 25_028_904, 4_230_479_872, "", "22.2", "Xie 2017, 1 crop"),
        ("resnext101_32x8d", 101, x8, 88_791_336, 16_414_015_488, "", "", "torchvision"),
        (
            "wide_resnet50_2",
            50,
            wide,
            68_883_240,
            11_398_021_120,
            "",
            "21.9",
            "Zagoruyko 2016, 1 crop",
        ),
        ("wide_resnet101_2", 101, wide, 126_886_696, 22_753_050_624, "", "", "torchvision"),
    )
    for name, depth, options, parameters, macs, paper_macs, error, source in rows:
        MODELS.add(
            name,
            ModelEntry(
                name=name,
                family="imagenet_resnet",
                options={"depth": depth, **options},
                depth=depth,
                parameters=parameters,
                macs=macs,
                input_shape=(3, 224, 224),
                paper_macs=paper_macs,
                paper_error=error,
                source=source,
            ),
        )


_add_cifar()
_add_imagenet()


def list_models(pattern: str = "*") -> list[str]:
    """Names of the nets that match a shell pattern.

    >>> list_models("wide*")
    ['wide_resnet50_2', 'wide_resnet101_2']
    """
    return [*MODELS.names(pattern), *(f for f in _FAMILIES if fnmatch.fnmatch(f, pattern))]


def create_model(name: str, **options: Any) -> "ResNet":
    """A net by name, with He initialisation from torch's random state.

    `options` override the name's own: num_classes, in_channels, stem ("imagenet" or "cifar"),
    shortcut ("none", "identity", "zero_pad" or "A", "projection" or "B", "projection_all" or "C"),
    stride_on, zero_init_branch, drop_path, checkpoint_activations. The families "cifar_resnet"
    (depth, block) and "imagenet_resnet" (depth) take any legal depth.

    Raises UnknownNameError for a name or option that does not exist (names the nearest) and
    ModelError for a value that cannot be built, such as an impossible depth.

    >>> create_model("resnet20", num_classes=100).spec.depth
    20
    """
    family, given = _resolve(name)
    module_name, _, function = _FAMILIES[family].partition(":")
    _check_options(name, family, options)
    build = getattr(importlib.import_module(module_name), function)
    try:
        model: ResNet = build(**(given | options))
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(
            f"{name} cannot be built with these options ({error})", got=options
        ) from error
    model.name, model.options = name, dict(options)
    return model


def cifar_model(kind: str, depth: int) -> tuple[str, dict[str, Any]]:
    """Name and options of the plain or residual ("resnet") CIFAR net of a depth.

    >>> cifar_model("plain", 56), cifar_model("resnet", 50)
    (('plain56', {}), ('cifar_resnet', {'depth': 50, 'shortcut': 'zero_pad'}))
    """
    name = f"{kind}{depth}"
    # resnet50 and resnet152 are ImageNet nets, though 50 and 152 are legal CIFAR depths too.
    if f"resnet{depth}" in MODELS and MODELS.get(f"resnet{depth}").family != "cifar_resnet":
        shortcut = "none" if kind == "plain" else "zero_pad"
        return "cifar_resnet", {"depth": depth, "shortcut": shortcut}
    return name, {}


def _resolve(name: str) -> tuple[str, dict[str, Any]]:
    if name in MODELS:
        entry = MODELS.get(name)
        return entry.family, dict(entry.options)
    if name in _FAMILIES:
        return name, {}
    numbered = re.fullmatch(r"(plain|resnet)(\d+)", name)
    if not numbered:
        raise UnknownNameError(
            f"unknown model {name!r}",
            hint=f"{close_names(name, list_models())} See: reslab models.",
        )
    kind, depth = numbered[1], int(numbered[2])
    block = "bottleneck" if (depth - 2) % 6 and (depth - 2) % 9 == 0 else "basic"
    options = {"depth": depth, "block": block}
    if (depth - 2) % 6 and block == "basic":
        _refuse_depth(name, depth)
    return "cifar_resnet", options | (_PLAIN if kind == "plain" else {})


def _is_cifar(depth: int) -> bool:
    return MODELS.get(f"resnet{depth}").family == "cifar_resnet"


def _refuse_depth(name: str, depth: int) -> None:
    taken = [MODELS.get(name).depth for name in MODELS.names("resnet*")]
    legal = [
        d
        for d in range(8, depth + 10)
        if ((d - 2) % 6 == 0 or (d - 2) % 9 == 0) and (d not in taken or _is_cifar(d))
    ]
    nearest = sorted(sorted(legal, key=lambda d: abs(d - depth))[:3])
    raise ModelError(
        f"no net has the depth of {name!r}",
        got=depth,
        expected="6n + 2 (basic) or 9n + 2 (bottleneck) for CIFAR; 18, 34, 50, 101, 152 for ImageNet",
        hint=f"Nearest: {', '.join(map(str, nearest))}.",
    )


def _check_options(name: str, family: str, options: dict[str, Any]) -> None:
    from dataclasses import fields

    from reslab.models.resnet import ResNetSpec

    known = [f.name for f in fields(ResNetSpec) if f.name not in ("depths", "widths")]
    known += ["depth"] if name in _FAMILIES else []
    if family == "imagenet_resnet" or name not in _FAMILIES:
        known.remove("block")
    for option in options:
        if option not in known:
            raise UnknownNameError(
                f"{name} has no option {option!r}", hint=close_names(option, known)
            )
    if name in _FAMILIES and "depth" not in options:
        raise ModelError(f"{name} needs a depth", hint=f"Such as create_model({name!r}, depth=50).")
