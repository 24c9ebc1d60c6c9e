"""The figure of errors against basis functions."""

import importlib.util

import numpy as np
import pytest

from dualgap.bench.sgma import compute_curves, read_usps, save_curves


@pytest.fixture(scope="module")
def curves():
    X = np.random.default_rng(0).normal(size=(150, 3))
    return compute_curves(X, gamma=0.2, most=20, seeds=3)


def test_pca_is_a_lower_bound_and_greedy_the_best_choice(curves):
    mean = {curve.name: curve.errors.mean(axis=0) for curve in curves}
    assert set(mean) == {"random", "rpcholesky", "best of 59", "greedy", "PCA"}
    for curve in curves:
        assert curve.errors.shape == (1 if curve.name in ("greedy", "PCA") else 3, 21)
        assert np.all(curve.errors[:, 0] == 1.0)
        assert np.all(np.diff(curve.errors) < 0.0)
        assert np.all(curve.errors >= mean["PCA"] - 1e-12)
    assert mean["greedy"][-1] < mean["best of 59"][-1] < mean["random"][-1]


def test_pca_is_the_spectrum():
    X = np.random.default_rng(0).normal(size=(60, 3))
    pca = compute_curves(X, gamma=0.2, most=10, seeds=1)[-1]
    squares = ((X[:, None] - X[None]) ** 2).sum(-1)
    spectrum = np.linalg.eigvalsh(np.exp(-0.2 * squares))[::-1]
    np.testing.assert_allclose(pca.errors[0], [spectrum[r:].sum() / 60 for r in range(11)], atol=1e-12)


def test_figure(curves, tmp_path):
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed")
    save_curves(curves, tmp_path / "errors.png", "a title")
    assert (tmp_path / "errors.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="must end in"):
        save_curves(curves, tmp_path / "errors.txt", "a title")


@pytest.mark.usefixtures("data_folder")
def test_first_basis_functions_show_most_digits():
    """The lecture: the first ten basis functions correspond to 9 of the 10 digits. A part of the data will do."""
    X, y = read_usps()
    rows = np.random.default_rng(0).permutation(len(X))[:1500]
    found = {curve.name: curve for curve in compute_curves(X[rows], most=10, seeds=2)}
    assert found["greedy"].classes_of_first(y[rows]) >= 6
    assert found["greedy"].errors[0, -1] < found["best of 59"].errors[:, -1].mean()
