"""Tiny pictures and folders, made anew for each test."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

# pytest's importlib mode leaves sys.path alone; cifar_toy.py beside this file is shared.
sys.path.insert(0, str(Path(__file__).parent))


def picture(number, size=(12, 10)):
    """A picture whose pixels depend on `number` alone; size is (width, height)."""
    rng = np.random.default_rng(number)
    return Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


@pytest.fixture
def make_folder(tmp_path):
    """Builds tmp_path/pictures from {"train/cat": 3, ...}: so many different PNG files in each."""

    def make(counts, size=(12, 10)):
        number = 0
        for name, count in counts.items():
            home = tmp_path / "pictures" / name
            home.mkdir(parents=True, exist_ok=True)
            for index in range(count):
                number += 1
                picture(number, size).save(home / f"{index}.png")
        return tmp_path / "pictures"

    return make
