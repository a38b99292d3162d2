"""Training speed of ResNet-20 at batch 128: reslab against the loop most people write.

The alternative is plain PyTorch: fp32, eager, contiguous layout, pictures through PIL transforms in
a DataLoader with 2 workers. Pictures are random, of CIFAR-10's shape: speed does not depend on them.

    python benchmarks/training_step.py --steps 20 --repeats 5
"""

import argparse
import time
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from PIL import Image
from timing import describe_machine, in_process, show, take_turns
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

import reslab
from reslab.data import ArraySplit, Augment, Data, build_train_loader
from reslab.recipe import load_recipe
from reslab.train.state import TrainState

BATCH = 128


class PilPictures(Dataset):
    """What torchvision's CIFAR10 gives: a PIL picture through transforms, one by one."""

    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images.permute(0, 2, 3, 1).numpy(), labels.tolist()
        self.transform = transforms.Compose(
            [
                transforms.RandomCrop(32, 4),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize((0.491, 0.482, 0.447), (0.247, 0.243, 0.262)),
            ]
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(Image.fromarray(self.images[index])), self.labels[index]


class PlainBlock(nn.Module):
    """A basic block as it is usually written."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.pad = (out_channels - in_channels) // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.pad:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(out + x)


def plain_resnet20() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    shapes = (
        [(16, 16, 1)] * 3 + [(16, 32, 2)] + [(32, 32, 1)] * 2 + [(32, 64, 2)] + [(64, 64, 1)] * 2
    )
    layers += [PlainBlock(*shape) for shape in shapes]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def pictures() -> tuple[torch.Tensor, torch.Tensor]:
    images = torch.randint(0, 256, (BATCH * 100, 3, 32, 32), dtype=torch.uint8)
    return images, torch.randint(0, 10, (BATCH * 100,))


def plain_loop(steps: int) -> Callable[[], float]:
    images, labels = pictures()
    net = plain_resnet20()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    loader = DataLoader(
        PilPictures(images, labels), BATCH, shuffle=True, num_workers=2, drop_last=True
    )

    def endless() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        while True:
            yield from loader

    batches = endless()

    def run() -> float:
        # What the workers prepared while others had their turn must not count.
        for _ in range(5):
            next(batches)
        start = time.perf_counter()
        for _ in range(steps):
            inputs, targets = next(batches)
            optimizer.zero_grad()
            loss = F.cross_entropy(net(inputs), targets)
            loss.backward()
            optimizer.step()
            loss.item()
        return steps * BATCH / (time.perf_counter() - start)

    return run


def reslab_loop(steps: int, changes: dict[str, object]) -> Callable[[], float]:
    images, labels = pictures()
    recipe = load_recipe("paper").updated(changes)
    split = ArraySplit(images, labels)
    data = Data("random", tuple("0123456789"), split, split, {})
    state = TrainState(reslab.create_model("resnet20"), recipe, torch.device("cpu"))
    loader = build_train_loader(
        split,
        preprocessing=data.preprocessing("pixel_mean"),
        augment=Augment(crop_padding=4, flip=True),
        batch_size=BATCH,
        seed=0,
    )

    def endless():
        epoch = 0
        while True:
            yield from loader.epoch(epoch)
            epoch += 1

    batches = endless()
    state.stepper(next(batches), 0.1)
    state.stepper(next(batches), 0.1)

    def run() -> float:
        start = time.perf_counter()
        for _ in range(steps):
            state.stepper(next(batches), 0.1)
        return steps * BATCH / (time.perf_counter() - start)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    recipes: dict[str, dict[str, object]] = {
        "reslab (auto)": {},
        "reslab fp32": {"precision": "fp32"},
        "reslab bf16": {"precision": "bf16"},
    }
    if not options.no_compile:
        recipes["reslab fp32 compiled"] = {"precision": "fp32", "compile": True}
        recipes["reslab bf16 compiled"] = {"precision": "bf16", "compile": True}
    contenders = {"plain fp32 eager, PIL DataLoader": in_process(plain_loop, options.steps)}
    for name, changes in recipes.items():
        contenders[name] = in_process(reslab_loop, options.steps, changes)
    print(describe_machine())
    figures = take_turns(contenders, repeats=options.repeats)
    show(figures, unit="images/s", against="plain fp32 eager, PIL DataLoader")


if __name__ == "__main__":
    main()
