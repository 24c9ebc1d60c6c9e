"""Arrays in compiled code whose references nobody counts."""

import sys

import numba as nb
import numpy as np

from dualgap.kernels.borrowed import borrowed


@nb.njit
def _change(arrays):
    first, (second, number), none = borrowed(arrays)
    flat = first.ravel()
    for i in range(second.size):
        flat[i] += number * second[i]
    return flat.size + len(none)


def test_they_are_the_same_arrays_in_tuples_of_tuples():
    first, second = np.zeros((2, 3)), np.arange(4)
    before = sys.getrefcount(first), sys.getrefcount(second)
    for _ in range(3):
        assert _change((first, (second, 2.0), ())) == 6
    assert first.tolist() == [[0.0, 6.0, 12.0], [18.0, 0.0, 0.0]]
    assert (sys.getrefcount(first), sys.getrefcount(second)) == before


@nb.njit
def _total(arrays):
    rows, other = borrowed(arrays)
    return rows.sum() + other.sum()


def test_the_arrays_outlive_the_call():
    """Counts that were taken away are not given back either: the memory is still its owner's."""
    made = [np.full(1000, float(k)) for k in range(50)]
    totals = [_total((array, array[::2].copy())) for array in made]
    assert totals == [1500.0 * k for k in range(50)]
    assert all(np.all(array == k) for k, array in enumerate(made))
