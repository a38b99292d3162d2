import pytest

from reslab.report.palette import SERIES, light_colour


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    low, high = sorted([luminance(one), luminance(two)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("tone", SERIES)
def test_every_colour_can_be_read_on_its_ground(tone):
    assert contrast(tone.light, "#ffffff") >= 4.5
    assert contrast(tone.dark, "#1b1e23") >= 4.5


def test_colours_repeat_after_the_last():
    assert light_colour(len(SERIES)) == light_colour(0)
