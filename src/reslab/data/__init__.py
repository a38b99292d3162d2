"""Pictures and labels: data sets by name or folder, preprocessing, augmentation, batches.

    data = load_data("cifar10")
    preprocessing = data.preprocessing("pixel_mean")
    loader = build_train_loader(
        data.train, preprocessing=preprocessing, augment=Augment(crop_padding=4, flip=True),
        batch_size=128, seed=0,
    )

Knows nothing of models.
"""

from reslab.data.augment import Augment, FolderAugment
from reslab.data.cifar import cache_folder
from reslab.data.cifar_get import get_cifar10, get_cifar100
from reslab.data.digits import load_digits
from reslab.data.doctor import FolderReport, check_folder
from reslab.data.findings import Finding
from reslab.data.folder import FolderSplit, load_folder
from reslab.data.loader import (
    Batch,
    EvalBatch,
    EvalLoader,
    TrainLoader,
    build_eval_loader,
    build_train_loader,
)
from reslab.data.preprocess import Preprocessing
from reslab.data.source import SOURCES, ArraySplit, Data, load_data
from reslab.data.views import VIEWS

__all__ = [
    "SOURCES",
    "VIEWS",
    "ArraySplit",
    "Augment",
    "Batch",
    "Data",
    "EvalBatch",
    "EvalLoader",
    "Finding",
    "FolderAugment",
    "FolderReport",
    "FolderSplit",
    "Preprocessing",
    "TrainLoader",
    "build_eval_loader",
    "build_train_loader",
    "cache_folder",
    "check_folder",
    "get_cifar10",
    "get_cifar100",
    "load_data",
    "load_digits",
    "load_folder",
]
