"""Colours: seen on both pages, told apart by colour-blind eyes, with text that can be read upon them."""

import itertools

import numpy as np
import pytest

from dgdmn.report.colours import CLASSES, HEAT_STEPS, LOOKS, OTHER, contrast, heat

PAGES = {"light": "#ffffff", "dark": "#14171b"}
PAPER = ("nn", "dropnn", "ppr", "ewc", "dgr", "dgdmn", "joint")
# Machado, Oliveira and Fernandes (2009), severity 1: linear RGB as such eyes see it
EYES = {
    "normal": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
    ),
}


def lab(colour, eyes):
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    seen = np.clip(EYES[eyes] @ linear, 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ seen / np.array([0.9505, 1.0, 1.089]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("page", PAGES)
def test_every_line_stands_out_from_its_page(page):
    shown = [getattr(look, page) for look in (*LOOKS.values(), OTHER)]
    shown += [pair[page == "dark"] for pair in CLASSES]
    assert min(contrast(colour, PAGES[page]) for colour in shown) >= 3


def least(colours, eyes):
    """The smallest distance of any two colours in these eyes, and which they are."""
    seen = {name: lab(colour, eyes) for name, colour in colours.items()}
    return min((np.linalg.norm(seen[a] - seen[b]), a, b) for a, b in itertools.combinations(seen, 2))


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("page", PAGES)
def test_algorithms_differ_in_any_eyes(page, eyes):
    shown = {name: getattr(look, page) for name, look in LOOKS.items()}
    assert least({name: shown[name] for name in PAPER}, eyes) >= (15,)
    assert least(shown, eyes) >= (8,)
    assert least({number: pair[page == "dark"] for number, pair in enumerate(CLASSES)}, eyes) >= (8,)


def test_nothing_is_told_by_colour_alone():
    looks = [*LOOKS.values(), OTHER]
    assert len({look.marker for look in looks}) == len(looks)


@pytest.mark.parametrize("dark", [False, True])
def test_every_cell_of_a_heat_map_can_be_read(dark):
    shades = [heat(step, dark=dark) for step in range(HEAT_STEPS + 1)]
    assert min(contrast(shade.text, shade.background) for shade in shades) >= 4.5
    assert len({shade.background for shade in shades}) == len(shades)
