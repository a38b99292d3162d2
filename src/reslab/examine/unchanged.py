"""Measuring leaves nothing behind: modes, gradients, buffers, hooks and random state as they were."""

import contextlib
import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

__all__ = ["fingerprint", "unchanged"]

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


@contextlib.contextmanager
def unchanged(model: nn.Module, *, training: bool = False) -> Iterator[None]:
    """The model in evaluation (or training) mode, without gradients of its own; restored after.

    What is put back, also after an exception or Ctrl-C: each module's mode, each parameter's `grad`
    and `requires_grad`, every buffer's values (running statistics move in training mode), and torch's
    random state on all devices. Inside, parameters require no gradient and have none; a measurement
    that needs gradients of parameters turns `requires_grad` on itself. Compiled models run as written.

    Weights are never changed here, nor is anything copied but buffers.
    """
    modes = [(module, module.training) for module in model.modules()]
    parameters = [(p, p.requires_grad, p.grad) for p in model.parameters()]
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices), torch.compiler.set_stance("force_eager"):
        try:
            model.train(training)
            for parameter, _, _ in parameters:
                parameter.requires_grad_(False)
                parameter.grad = None
            yield
        finally:
            for module, mode in modes:
                module.training = mode
            for parameter, required, gradient in parameters:
                parameter.requires_grad_(required)
                parameter.grad = gradient
            with torch.no_grad():
                for buffer, values in buffers:
                    buffer.copy_(values)


def fingerprint(model: nn.Module) -> str:
    """SHA-256 of weights, buffers, gradients, modes, hooks, requires_grad and torch's random state.

    Equal before and after a measurement: nothing was left behind.

    >>> net = nn.Linear(2, 2)
    >>> before = fingerprint(net)
    >>> with unchanged(net):
    ...     _ = net(torch.randn(3, 2))
    >>> fingerprint(net) == before
    True
    """
    digest = hashlib.sha256()

    def add(text: str, tensor: Tensor | None = None) -> None:
        digest.update(text.encode())
        if tensor is not None:
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().tobytes())

    for name, parameter in model.named_parameters():
        add(f"{name} {parameter.requires_grad} {parameter.grad is not None}", parameter)
        if parameter.grad is not None:
            add("grad", parameter.grad)
    for name, buffer in model.named_buffers():
        add(name, buffer)
    for name, module in model.named_modules():
        hooks = [list(getattr(module, kind)) for kind in _HOOKS]
        add(f"{name} {type(module).__qualname__} {module.training} {hooks}")
    add("rng", torch.get_rng_state())
    return digest.hexdigest()
