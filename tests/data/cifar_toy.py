"""A CIFAR of twelve pictures, written in every form that the real one comes in."""

import dataclasses
import hashlib
import io
import json
import pickle
import tarfile

import numpy as np
import torch
from PIL import Image

from reslab.data.cifar import CIFAR10, Official
from reslab.data.cifar_get import picture_sum
from reslab.data.source import ArraySplit, array_sums

CLASSES = CIFAR10.classes
_rng = np.random.default_rng(0)
TRAIN = _rng.integers(0, 256, (10, 3, 32, 32), dtype=np.uint8)
TEST = _rng.integers(0, 256, (2, 3, 32, 32), dtype=np.uint8)
TRAIN_LABELS = np.arange(10)[::-1].copy()
TEST_LABELS = np.array([3, 5])
BATCHES = [(f"data_batch_{n + 1}", slice(2 * n, 2 * n + 2)) for n in range(5)]


def split(images, labels):
    return ArraySplit(torch.from_numpy(images), torch.from_numpy(labels))


def toy_spec(**changes):
    """The real CIFAR-10, with the sums of the toy, no server and no npm package."""
    train, test = split(TRAIN, TRAIN_LABELS), split(TEST, TEST_LABELS)
    pictures = {"train": picture_sum(train), "test": picture_sum(test)}
    official = Official("http://127.0.0.1:9/cifar-10-python.tar.gz", "0" * 32, {})
    values = {
        "sums": array_sums(train, test),
        "picture_sums": pictures,
        "npm": "",
        "official": lambda: official,
    }
    return dataclasses.replace(CIFAR10, **(values | changes))


def python_files():
    rows = [(name, TRAIN[part], TRAIN_LABELS[part]) for name, part in BATCHES]
    files = {
        name: pickle.dumps({"data": x.reshape(len(x), -1), "labels": y.tolist()}, protocol=2)
        for name, x, y in [*rows, ("test_batch", TEST, TEST_LABELS)]
    }
    return files | {"batches.meta": pickle.dumps({"label_names": list(CLASSES)})}


def binary_files():
    rows = [(name, TRAIN[part], TRAIN_LABELS[part]) for name, part in BATCHES]
    files = {
        f"{name}.bin": b"".join(bytes([b]) + a.tobytes() for a, b in zip(x, y, strict=True))
        for name, x, y in [*rows, ("test_batch", TEST, TEST_LABELS)]
    }
    return files | {"batches.meta.txt": ("\n".join(CLASSES) + "\n\n").encode()}


def sheet(images):
    buffer = io.BytesIO()
    Image.fromarray(images.transpose(0, 2, 3, 1).reshape(len(images), 1024, 3)).save(buffer, "PNG")
    return buffer.getvalue()


def npm_files():
    files = {f"{name}.png": sheet(TRAIN[part]) for name, part in BATCHES}
    labels = {
        "train_lables.json": json.dumps(TRAIN_LABELS.tolist()).encode(),
        "test_lables.json": json.dumps(TEST_LABELS.tolist()).encode(),
    }
    return files | {"test_batch.png": sheet(TEST)} | labels


def write_folder(folder, files):
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def write_archive(path, inner, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            item = tarfile.TarInfo(f"{inner}/{name}")
            item.size = len(data)
            archive.addfile(item, io.BytesIO(data))
    return path


def write_npz(path, names="train_images train_labels test_images test_labels", last=True):
    images = [a.transpose(0, 2, 3, 1) if last else a for a in (TRAIN, TEST)]
    arrays = [images[0], TRAIN_LABELS[:, None], images[1], TEST_LABELS]
    np.savez(path, **dict(zip(names.split(), arrays, strict=True)))
    return path


def write_pictures(folder, suffix="png"):
    for part, images, labels in (("train", TRAIN, TRAIN_LABELS), ("test", TEST, TEST_LABELS)):
        for name in CLASSES:
            (folder / part / name).mkdir(parents=True)
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            path = folder / part / CLASSES[label] / f"{number}.{suffix}"
            Image.fromarray(image.transpose(1, 2, 0)).save(path)
    return folder


def md5(data):
    return hashlib.md5(data).hexdigest()
