"""Words of levels in the order of the tiles, whole squares in registers and the rest one by one."""

import numpy as np
import pytest

from dualgap.kernels._word_packing import pack_words


@pytest.mark.parametrize("width", [6, 32, 64])
@pytest.mark.parametrize(("count", "words"), [(1, 1), (65, 5), (64, 16), (130, 17), (191, 40)])
def test_words_are_those_of_the_points_lane_by_lane(width, count, words):
    generator = np.random.default_rng(0)
    rows = generator.integers(-(2**31), 2**31, (2 * count, words + 3)).astype(np.int32)
    points = generator.permutation(2 * count)[:count]
    flipped = np.int32(-0x7F7F7F80)
    groups = -(-count // width)
    packed = np.zeros(groups * width * words, dtype=np.int32)
    pack_words(rows, points, words, flipped, width, 0, groups, packed)
    expected = np.full((groups * width, words), flipped)
    expected[:count] = rows[points, :words] ^ flipped
    assert np.array_equal(packed.reshape(groups, words, width), expected.reshape(groups, width, words).swapaxes(1, 2))
