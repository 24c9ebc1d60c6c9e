"""scikit-learn's own checks of an estimator: all of them, at default parameters, none expected to fail.

Among them is that an integer weight is the same as so many repetitions of a sample, to seven digits, which
scikit-learn's own support vector machines are excused from.
"""

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

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
    SVCSearchCV,
)

KERNEL = [SVC(), NuSVC(), SVR(), NuSVR(), OneClassSVM(), SVDD()]
LINEAR = [LinearSVC(), LinearSVR(), LinearOneClassSVM(), LinearSVDD()]
# What has a path of its own through the code.
FURTHER = [
    SVC(multi_class="ovr"),
    SVC(kernel="linear"),
    LinearSVC(loss="hinge"),
    LinearSVC(loss="hinge", penalize_intercept=False),
    LinearSVR(loss="squared_epsilon_insensitive"),
    SVCSearchCV(Cs=(0.1, 1.0)),
]


@parametrize_with_checks([*KERNEL, *LINEAR, *FURTHER])
def test_check(estimator, check):
    check(estimator)


# These stop at a gap, which says less of decision values the flatter the objective is.
AT_A_GAP = [
    LinearSVC(multi_class="crammer_singer", gap_tol=1e-13),
    LinearSVC(penalty="l1", gap_tol=1e-13),
]


@parametrize_with_checks(AT_A_GAP)
def test_check_of_joint_and_sparse_machines(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [*KERNEL, *LINEAR], ids=lambda estimator: type(estimator).__name__)
def test_constructor_does_nothing_else(estimator):
    assert clone(estimator).get_params() == type(estimator)().get_params()
