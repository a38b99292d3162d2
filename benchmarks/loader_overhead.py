"""What loading costs: steps over a loaded epoch against the same steps on one fixed batch.

python benchmarks/loader_overhead.py --steps 20 --repeats 5
"""

import argparse
import time
from collections.abc import Callable

import torch
from timing import describe_machine, show, take_turns

import reslab
from reslab.data import ArraySplit, Augment, Data, build_train_loader
from reslab.recipe import load_recipe
from reslab.train.state import TrainState


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    images = torch.randint(0, 256, (50_000, 3, 32, 32), dtype=torch.uint8)
    split = ArraySplit(images, torch.randint(0, 10, (50_000,)))
    data = Data("random", tuple("0123456789"), split, split, {})
    state = TrainState(reslab.create_model("resnet20"), load_recipe("paper"), torch.device("cpu"))
    loader = build_train_loader(
        split,
        preprocessing=data.preprocessing("pixel_mean"),
        augment=Augment(crop_padding=4, flip=True),
        batch_size=128,
        seed=0,
    )
    fixed = next(loader.epoch(0))
    for _ in range(3):
        state.stepper(fixed, 0.1)

    def on_fixed() -> float:
        start = time.perf_counter()
        for _ in range(options.steps):
            state.stepper(fixed, 0.1)
        return (time.perf_counter() - start) / options.steps * 1000

    def on_loaded() -> float:
        batches = loader.epoch(0)
        start = time.perf_counter()
        for _ in range(options.steps):
            state.stepper(next(batches), 0.1)
        return (time.perf_counter() - start) / options.steps * 1000

    contenders: dict[str, Callable[[], float]] = {"fixed batch": on_fixed, "loaded": on_loaded}
    print(describe_machine())
    show(take_turns(contenders, repeats=options.repeats), unit="ms/step", against="fixed batch")


if __name__ == "__main__":
    main()
