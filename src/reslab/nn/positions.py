"""Where a token stands, told by sines and cosines (Vaswani 2017, section 3.5); nothing is learnt."""

import math

import torch
from torch import Tensor, nn

from reslab.errors import ModelError

__all__ = ["SinusoidalPositions", "sinusoidal_table"]


def sinusoidal_table(length: int, width: int, *, device: torch.device | None = None) -> Tensor:
    """[length, width] of float64: sin(t / 10000^(2i/width)) at 2i, the cosine at 2i + 1.

    >>> sinusoidal_table(2, 2)
    tensor([[0.0000, 1.0000],
            [0.8415, 0.5403]], dtype=torch.float64)
    """
    if width < 2 or width % 2:
        raise ModelError(
            "sines and cosines come in pairs",
            got=width,
            expected="an even width",
            hint=f"Nearest: {max(2, width + 1)}.",
        )
    even = torch.arange(0, width, 2, dtype=torch.float64, device=device)
    times = torch.arange(length, dtype=torch.float64, device=device)
    angles = times[:, None] * torch.exp(even * (-math.log(10_000.0) / width))
    return torch.stack((angles.sin(), angles.cos()), 2).flatten(1)


class SinusoidalPositions(nn.Module):
    """The rows of the table, of which `max_length` are kept ready and later ones are computed.

    >>> SinusoidalPositions(16, 4)(3).shape
    torch.Size([3, 4])
    """

    table: Tensor

    def __init__(self, max_length: int, width: int) -> None:
        super().__init__()
        rows = sinusoidal_table(max_length, width).to(torch.get_default_dtype())
        self.register_buffer("table", rows, persistent=False)

    def forward(self, length: int, offset: int = 0) -> Tensor:
        """[length, width]: the positions from `offset` on."""
        end = offset + length
        if end <= len(self.table):
            return self.table[offset:end]
        longer = sinusoidal_table(end, self.table.shape[1], device=self.table.device)
        return longer[offset:].to(self.table.dtype)

    def extra_repr(self) -> str:
        """Rows kept ready, and their width."""
        return f"max_length={self.table.shape[0]}, width={self.table.shape[1]}"
