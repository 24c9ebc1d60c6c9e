"""scikit-learn estimators: validation in, attributes out, no mathematics."""

from dualgap.estimators.classification import SVC, NuSVC
from dualgap.estimators.linear_classification import LinearSVC
from dualgap.estimators.linear_outliers import LinearOneClassSVM, LinearSVDD
from dualgap.estimators.linear_regression import LinearSVR
from dualgap.estimators.outliers import SVDD, OneClassSVM
from dualgap.estimators.regression import SVR, NuSVR

__all__ = [
    "SVC",
    "SVDD",
    "SVR",
    "LinearOneClassSVM",
    "LinearSVC",
    "LinearSVDD",
    "LinearSVR",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
]
