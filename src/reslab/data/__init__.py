"""Pictures, text and labels: data sets by name or path, preprocessing, augmentation, batches.

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
from reslab.data.rules import load_numbers, load_reverse
from reslab.data.source import SOURCES, ArraySplit, Data, load_data
from reslab.data.tasks import IGNORED, TokenSplit, count_scored, prepare_task
from reslab.data.text_files import is_text, load_text
from reslab.data.views import VIEWS
from reslab.data.workers import Inputs

__all__ = [
    "IGNORED",
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
    "Inputs",
    "Preprocessing",
    "TokenSplit",
    "TrainLoader",
    "build_eval_loader",
    "build_train_loader",
    "cache_folder",
    "check_folder",
    "count_scored",
    "get_cifar10",
    "get_cifar100",
    "is_text",
    "load_data",
    "load_digits",
    "load_folder",
    "load_numbers",
    "load_reverse",
    "load_text",
    "prepare_task",
]
