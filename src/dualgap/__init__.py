"""dualgap: support vector machines with a proof of how good each solution is."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

# Public names and where they live. They are imported at first use, because scikit-learn alone takes a second.
_HOME = {
    "solve": "run",
    "choose": "run",
    "NotCertifiedWarning": "run",
    "UnsupportedProblemError": "run",
    "UnknownSolverError": "run",
    "CheckpointError": "checkpoint",
    "CheckpointWarning": "checkpoint",
    "InfeasibleProblemError": "constraints",
    "SOLVERS": "solvers",
    "COMPOSITE_SOLVERS": "solvers",
    "DualQP": "problem",
    "Composite": "composite",
    "minimize": "minimization",
    "MinimizeResult": "minimization",
    "primal_svm": "primal",
    "minimize_smoothed": "smoothing",
    "SmoothedResult": "smoothing",
    "certify_composite": "composite_certificate",
    "solve_l1_svm": "l1svm",
    "l1_problem": "l1svm",
    "L1Result": "l1svm",
    "certify": "certificate",
    "build": "formulations",
    "recover": "formulations",
    "FORMULATIONS": "formulations",
    "Kernel": "kernels.functions",
    "Gram": "kernels.gram",
    "FullGram": "kernels.gram",
    "KernelGram": "kernels.gram",
    "make_gram": "kernels.gram",
    "factored_gram": "kernels.gram",
    "Certificate": "result",
    "Event": "result",
    "History": "result",
    "Result": "result",
    "Status": "result",
    "SVC": "estimators",
    "NuSVC": "estimators",
    "SVR": "estimators",
    "NuSVR": "estimators",
    "OneClassSVM": "estimators",
    "SVDD": "estimators",
    "LinearSVC": "estimators",
    "LinearSVR": "estimators",
    "LinearOneClassSVM": "estimators",
    "LinearSVDD": "estimators",
    "SVCSearchCV": "estimators.search",
    "SVRSearchCV": "estimators.regression_search",
    "ConvergenceDisplay": "displays",
    "MarginDisplay": "displays",
    "PathDisplay": "displays",
    "SearchDisplay": "displays",
    "from_sklearn": "estimators.sklearn_models",
    "patch_sklearn": "patch",
    "unpatch_sklearn": "patch",
    "LinearSVCSearchCV": "estimators.linear_search",
    "tune_primal": "estimators.linear_search",
    "PrimalTuning": "estimators.linear_search",
    "RowBlocks": "kernels.row_blocks",
    "stream_rows": "kernels.row_blocks",
    "stream_libsvm": "datasets.streaming",
    "stream_blocks": "datasets.streaming",
    "solve_streamed": "out_of_core",
    "StreamedResult": "out_of_core",
    "svm_path": "path",
    "PathResult": "path",
    "scaled_start": "path",
    "restart_bounds": "path",
    "save": "formats.model",
    "load": "formats.model",
}
_MODULES = ("datasets", "formulations", "kernels", "report")

__all__ = [*_HOME, *_MODULES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"dualgap.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"dualgap.{name}")
    raise AttributeError(f"module 'dualgap' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:
    from dualgap import datasets, formulations, kernels
    from dualgap.certificate import certify
    from dualgap.checkpoint import CheckpointError, CheckpointWarning
    from dualgap.composite import Composite
    from dualgap.composite_certificate import certify_composite
    from dualgap.constraints import InfeasibleProblemError
    from dualgap.datasets.streaming import stream_blocks, stream_libsvm
    from dualgap.displays import ConvergenceDisplay, MarginDisplay, PathDisplay, SearchDisplay
    from dualgap.estimators import (
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
    from dualgap.estimators.linear_search import LinearSVCSearchCV, PrimalTuning, tune_primal
    from dualgap.estimators.regression_search import SVRSearchCV
    from dualgap.estimators.search import SVCSearchCV
    from dualgap.estimators.sklearn_models import from_sklearn
    from dualgap.formats.model import load, save
    from dualgap.formulations import FORMULATIONS, build, recover
    from dualgap.kernels.functions import Kernel
    from dualgap.kernels.gram import FullGram, Gram, KernelGram, factored_gram, make_gram
    from dualgap.kernels.row_blocks import RowBlocks, stream_rows
    from dualgap.l1svm import L1Result, l1_problem, solve_l1_svm
    from dualgap.minimization import MinimizeResult, minimize
    from dualgap.out_of_core import StreamedResult, solve_streamed
    from dualgap.patch import patch_sklearn, unpatch_sklearn
    from dualgap.path import PathResult, restart_bounds, scaled_start, svm_path
    from dualgap.primal import primal_svm
    from dualgap.problem import DualQP
    from dualgap.report import report  # a package that can be called
    from dualgap.result import Certificate, Event, History, Result, Status
    from dualgap.run import (
        NotCertifiedWarning,
        UnknownSolverError,
        UnsupportedProblemError,
        choose,
        solve,
    )
    from dualgap.smoothing import SmoothedResult, minimize_smoothed
    from dualgap.solvers import COMPOSITE_SOLVERS, SOLVERS
