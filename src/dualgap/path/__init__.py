"""Regularisation paths: many values of one parameter, each solved from the solution of the one before."""

from dualgap.path.result import PathResult
from dualgap.path.starts import restart_bounds, scaled_start
from dualgap.path.walk import svm_path

__all__ = ["PathResult", "restart_bounds", "scaled_start", "svm_path"]
