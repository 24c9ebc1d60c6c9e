"""scikit-learn's own checks of an estimator, every one of them."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from dualgap import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM


@parametrize_with_checks([SVC(), NuSVC(), SVR(), NuSVR(), OneClassSVM(), SVDD()])
def test_check(estimator, check):
    check(estimator)
