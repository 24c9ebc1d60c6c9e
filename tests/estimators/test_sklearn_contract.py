"""scikit-learn's own checks of an estimator.

With default parameters a weight cannot equal a repetition to seven digits: ``gamma="scale"`` counts samples, as in
scikit-learn, and ``tol`` is 1e-3. There the check runs with a fixed gamma and a tight tolerance instead. For the
outlier detectors it then differs in the sign of points that lie exactly on the boundary; their decision values are
compared in test_against_sklearn.py.
"""

import pytest
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

from dualgap import (
    SVC,
    SVDD,
    SVR,
    LinearOneClassSVM,
    LinearSVC,
    LinearSVDD,
    LinearSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
)

WEIGHTS = {
    f"check_sample_weight_equivalence_on_{kind}_data": "gamma='scale' counts samples, and tol is 1e-3"
    for kind in ("dense", "sparse")
}
NU = {"check_class_weight_classifiers": "nu=0.5 is infeasible at class weights of 1000 and 0.0001"}


@parametrize_with_checks(
    [SVC(), NuSVC(), SVR(), NuSVR(), OneClassSVM(), SVDD()],
    expected_failed_checks=lambda estimator: WEIGHTS | (NU if isinstance(estimator, NuSVC) else {}),
)
def test_check(estimator, check):
    check(estimator)


# With a hinge, even a gap of 1e-13 leaves the seventh digit of decision values open, and detectors differ in points on
# the boundary as above; test_linear.py compares their decision values.
HINGE = dict.fromkeys(WEIGHTS, "a gap of 1e-13 is about seven digits of a decision value")
LINEAR = [
    LinearSVC(),
    LinearSVC(loss="hinge", gap_tol=1e-13),
    LinearSVC(multi_class="crammer_singer", gap_tol=1e-13),
    LinearSVR(gap_tol=1e-13),
    LinearOneClassSVM(gap_tol=1e-13),
    LinearSVDD(gap_tol=1e-13),
]


@parametrize_with_checks(LINEAR, expected_failed_checks=lambda estimator: HINGE if estimator.gap_tol else {})
def test_linear_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(
    "estimator",
    [
        SVC(gamma=0.1, tol=1e-10),
        NuSVC(gamma=0.1, tol=1e-10, nu=0.2),
        SVR(gamma=0.1, tol=1e-10),
        NuSVR(gamma=0.1, tol=1e-10),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_a_weight_is_a_repetition(estimator, kind):
    check = {
        "dense": check_sample_weight_equivalence_on_dense_data,
        "sparse": check_sample_weight_equivalence_on_sparse_data,
    }[kind]
    check(type(estimator).__name__, estimator)
