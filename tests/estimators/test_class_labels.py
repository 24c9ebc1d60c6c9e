"""Labels: encoded as `np.unique` does, by a table where they are whole numbers near each other, refused as ever."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils import compute_class_weight

from dualgap.estimators import class_labels
from dualgap.estimators.class_labels import distinct_labels, encode_classes, weighted

DTYPES = (bool, np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64, ">i4", ">f8")


def same_as_unique(y):
    classes, codes = distinct_labels(y)
    expected, places = np.unique(y, return_inverse=True)
    assert np.array_equal(classes, expected)
    assert classes.dtype == expected.dtype
    assert np.array_equal(codes, places)
    assert codes.dtype == np.intp


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=30), st.sampled_from(DTYPES), st.integers(1, 3))
def test_same_as_unique(labels, dtype, step):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # many classes of few samples
        same_as_unique(np.array(labels * 3).astype(dtype)[::step])


@pytest.mark.parametrize("labels", [[0, 4095, 7], [0, 4096, 7], [-(2**62), 2**62], [2**63 - 1, -(2**63)], [2**53, 1]])
def test_labels_far_from_each_other(labels):
    same_as_unique(np.array(labels * 2, dtype=np.int64))
    if max(labels) < 2**63 - 1:  # scikit-learn takes floats that large for real numbers
        same_as_unique(np.array(labels * 2, dtype=np.float64))


@pytest.mark.parametrize("labels", [["a", "b", "a"], np.array(["b", "a", "b"], dtype=object), [[1], [2], [1]]])
def test_other_kinds(labels):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a column in place of a vector
        classes, codes = distinct_labels(labels)
    assert len(classes) == 2
    assert np.array_equal(codes == codes[0], [True, False, True])


def test_table_is_what_whole_numbers_take(monkeypatch):
    monkeypatch.setattr(class_labels, "check_classification_targets", None)
    for dtype in DTYPES:
        if dtype is not np.uint64:
            same_as_unique(np.array([1, 0, 1, 1]).astype(dtype))


@pytest.mark.parametrize("labels", [[0.5, 1.0], [0.0, np.nan], [1.0, np.inf], np.array([1, "a"], dtype=object)])
def test_refused(labels):
    with pytest.raises((ValueError, TypeError)):
        distinct_labels(np.asarray(labels))


def test_many_classes_are_warned_of():
    with pytest.warns(UserWarning, match="unique classes is greater than 50%"):
        same_as_unique(np.arange(30))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same_as_unique(np.arange(30) // 2)
        same_as_unique(np.arange(20))


@pytest.mark.parametrize("class_weight", [None, {0: 2.0, 1: 3.0}, {1: 3.0}])
def test_class_weights_are_scikit_learns(class_weight):
    y = np.array([0, 1, 1, 0, 1])
    _, codes, factors = encode_classes(y, np.ones(5), class_weight)
    assert np.array_equal(factors, compute_class_weight(class_weight, classes=np.array([0, 1]), y=y))
    weight = np.arange(5.0)
    assert np.array_equal(weighted(codes, weight, factors), weight * factors[codes])


def test_class_weight_of_nobody_is_refused():
    with pytest.raises(ValueError, match="class_weight"):
        encode_classes(np.array([0, 1]), np.ones(2), {1: 2.0, 5: 1.0})


def test_weight_of_every_class():
    rng = np.random.default_rng(0)
    codes, weight = rng.integers(0, 7, size=103), rng.uniform(size=103)
    expected = np.bincount(codes, weights=weight, minlength=8)
    assert class_labels._class_sums(codes, weight, 8) == pytest.approx(expected, rel=1e-14)
