"""The report's colours, once: the page takes both columns, the still figures the first.

Each has a contrast of at least 4.5 : 1 with its background, and neighbours differ in lightness or
in the blue-yellow direction too, which most colour-blind readers see.
"""

from dataclasses import dataclass

__all__ = ["SERIES", "Tone", "light_colour"]


@dataclass(frozen=True)
class Tone:
    """One colour on light and on dark ground, as #rrggbb."""

    light: str
    dark: str


SERIES = (
    Tone("#1f66b0", "#74b3f5"),  # blue
    Tone("#c2410c", "#ff9566"),  # vermilion
    Tone("#1a7a4c", "#62c993"),  # green
    Tone("#7a45b0", "#bf9df0"),  # violet
    Tone("#8a6100", "#e3b54a"),  # ochre
    Tone("#0b7080", "#55c6da"),  # teal
)


def light_colour(series: int) -> str:
    """The colour of a series on light ground; colours repeat after the last."""
    return SERIES[series % len(SERIES)].light
