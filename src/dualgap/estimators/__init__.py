"""scikit-learn estimators: validation in, attributes out, no mathematics."""

from dualgap.estimators.classification import SVC, NuSVC
from dualgap.estimators.outliers import SVDD, OneClassSVM
from dualgap.estimators.regression import SVR, NuSVR

__all__ = ["SVC", "SVDD", "SVR", "NuSVC", "NuSVR", "OneClassSVM"]
