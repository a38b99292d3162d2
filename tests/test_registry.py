import pytest

from reslab.errors import UnknownNameError, UsageError
from reslab.registry import Registry


def test_a_name_can_be_taken_once():
    registry = Registry("thing")
    registry.add("a", 1)
    with pytest.raises(UsageError, match="registered already"):
        registry.add("a", 2)


def test_an_unknown_name_suggests_close_ones_or_all():
    registry = Registry("thing")
    registry.add("resnet50", 1)
    with pytest.raises(UnknownNameError, match="Did you mean resnet50"):
        registry.get("resnet5")
    with pytest.raises(LookupError, match="Known: resnet50"):
        registry.get("zzz")
