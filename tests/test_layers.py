"""Dependencies point one way, and looking at help loads no torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import reslab

SOURCE = Path(reslab.__file__).parent
# Each layer may import itself and those before it.
LAYERS = [
    {"errors"},
    {"registry", "recipe", "recipes", "records", "files", "seeding"},
    {"nn"},
    {"models", "data"},
    {"train", "examine", "report"},
    {"surgery", "deploy"},
    {"studies"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
NEVER = {("models", "data"), ("data", "models"), ("report", "train"), ("report", "examine")}
WITHOUT_TORCH = ["errors", "registry", "recipe", "records", "files", "report", "cli"]


def modules():
    return sorted(p for p in SOURCE.rglob("*.py") if p.parent != SOURCE or p.stem != "__init__")


def imports(path, *, top_level=False):
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (
                f"{node.module}.{a.name}" if node.module == "reslab" else node.module
                for a in node.names
            )


def layer(path):
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_arrows_point_one_way(path):
    own = layer(path)
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "reslab" or len(parts) < 2 or parts[1] not in LEVEL:
            continue
        assert LEVEL[parts[1]] <= LEVEL[own], f"{own} imports {name}"
        assert (own, parts[1]) not in NEVER, f"{own} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_light_layers_import_no_torch_at_the_top(path):
    if layer(path) in WITHOUT_TORCH:
        heavy = {n.split(".")[0] for n in imports(path, top_level=True)}
        assert not heavy & {"torch", "torchvision", "sklearn", "matplotlib"}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["models"], ["train", "--help"], ["study", "degradation", "--help"]]
)
def test_looking_loads_no_torch(arguments):
    code = (
        "import sys; from reslab.cli.main import _run; sys.argv[1:] = "
        f"{arguments!r}; code = _run(); assert 'torch' not in sys.modules; sys.exit(code)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_every_public_name_can_be_had_and_is_listed():
    assert reslab.__all__ == sorted(reslab.__all__)
    for name in reslab.__all__:
        assert getattr(reslab, name) is not None
        assert name in dir(reslab)
    with pytest.raises(AttributeError, match="nonsense"):
        reslab.nonsense  # noqa: B018


def test_modules_stay_short():
    long = {str(p): len(p.read_text().splitlines()) for p in modules()}
    assert {p: n for p, n in long.items() if n > 360} == {}
