"""Which part of a picture is taken: always inside, of the drawn area and shape, and upright."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_files import generator

from loaderkit.transforms.image.region import Region, central_region, random_region, reduction, turn_of

sides = st.integers(1, 3000)
sizes = st.tuples(st.integers(1, 400), st.integers(1, 400))
shares = st.tuples(st.floats(0.01, 1), st.floats(0.01, 1)).map(lambda pair: tuple(sorted(pair)))
ratios = st.tuples(st.floats(0.2, 5), st.floats(0.2, 5)).map(lambda pair: tuple(sorted(pair)))
seeds = st.integers(0, 2**64 - 1)


def inside(region: Region, height: int, width: int) -> bool:
    rows = region.top >= 0 and region.height > 0 and region.top + region.height <= height
    return rows and region.left >= 0 and region.width > 0 and region.left + region.width <= width


@given(sides, sides, shares, ratios, seeds)
def test_a_random_region_is_inside_and_belongs_to_its_generator(height, width, scale, ratio, seed):
    """The same picture and generator give the same region, within the picture."""
    region = random_region(height, width, scale=scale, ratio=ratio, rng=generator(seed))
    assert inside(region, height, width)
    assert region == random_region(height, width, scale=scale, ratio=ratio, rng=generator(seed))


@given(st.integers(200, 600), st.integers(200, 600), seeds)
def test_area_and_shape_are_the_drawn_ones(height, width, seed):
    """Within rounding to whole pixels, in pictures where ten tries are enough."""
    region = random_region(height, width, scale=(0.1, 0.3), ratio=(0.75, 1.25), rng=generator(seed))
    assert 0.09 <= region.height * region.width / (height * width) <= 0.31
    assert 0.73 <= region.width / region.height <= 1.28


def test_places_are_drawn_alike():
    """One pixel of a 2 x 3 picture is each of its six pixels as often."""
    counts = Counter(
        (region.top, region.left)
        for region in (
            random_region(2, 3, scale=(1 / 6, 1 / 6), ratio=(1.0, 1.0), rng=generator(seed))
            for seed in range(3000)
        )
    )
    assert len(counts) == 6
    assert all(abs(count - 500) < 100 for count in counts.values())


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (10, 1000, Region(0, 493, 10, 13)),
        (1000, 10, Region(493, 0, 13, 10)),
        (1, 1, Region(0, 0, 1, 1)),
    ],
)
def test_what_never_fits_is_the_largest_central_part(height, width, expected):
    """After ten tries, as torchvision does it: an extreme panorama gives its middle."""
    region = random_region(height, width, scale=(1.0, 1.0), ratio=(3 / 4, 4 / 3), rng=generator(0))
    assert region == expected


def test_a_part_has_a_pixel_at_least():
    """Also of a picture of one row or column, whatever the ratios."""
    for height, width, ratio in ((1, 9, (0.1, 0.2)), (9, 1, (5.0, 9.0))):
        region = random_region(height, width, scale=(1.0, 1.0), ratio=ratio, rng=generator(0))
        assert (region.height, region.width) == (1, 1)


@given(sides, sides, sizes, st.floats(0.01, 1))
def test_a_central_region_is_central_and_inside(height, width, size, fraction):
    """Margins on both sides differ by at most one pixel."""
    region = central_region(height, width, size=size, fraction=fraction)
    assert inside(region, height, width)
    assert 0 <= height - region.height - 2 * region.top <= 1
    assert 0 <= width - region.width - 2 * region.left <= 1


@given(st.integers(0, 99), st.integers(0, 99), sides, sides, st.integers(0, 9), st.integers(0, 9), sizes)
def test_a_reduced_region_covers_the_size(top, left, height, width, below, beside, size):
    """One of 8, 4, 2, 1, the largest that leaves a pixel for each of the output's; its edges move by less than one."""
    region = Region(top, left, height, width)
    picture = (top + height + below, left + width + beside)
    by = reduction(region, size)
    small = region.divided(by, *picture)
    if by > 1:
        assert small.height >= size[0] and small.width >= size[1]
    if by < 8:
        assert region.height < 2 * by * size[0] or region.width < 2 * by * size[1]
    whole = small.times(by)
    assert inside(whole, *picture)
    assert abs(whole.top - top) < by and abs(whole.left - left) < by
    assert abs(whole.top + whole.height - top - height) < by
    assert abs(whole.left + whole.width - left - width) < by


@given(st.integers(1, 8), st.integers(1, 6), st.integers(1, 6), st.data())
def test_a_region_is_the_same_pixels_upright_and_stored(orientation, rows, columns, data):
    """Cutting, then turning gives what turning, then cutting gives."""
    turn = turn_of(orientation)
    stored = np.arange(rows * columns).reshape(rows, columns)
    upright = turn.upright(stored)
    height, width = turn.swapped((rows, columns))
    assert upright.shape == (height, width)
    top, left = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    region = Region(
        top, left, data.draw(st.integers(1, height - top)), data.draw(st.integers(1, width - left))
    )
    cut = turn.upright(turn.stored(region, height, width).of(stored))
    np.testing.assert_array_equal(cut, region.of(upright))
    assert cut.flags.c_contiguous
