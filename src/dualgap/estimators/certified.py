"""What every estimator shares: parameters kept as given, weights and solver options checked, certificates told."""

from __future__ import annotations

import os
import warnings
from inspect import Parameter, signature
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import estimator_html_repr
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.validation import check_array

from dualgap.certificate import combine
from dualgap.estimators.array_api import convert_arrays
from dualgap.estimators.certificate_table import certificate_table
from dualgap.estimators.session import Session
from dualgap.estimators.sklearn_callbacks import CallbackSupportMixin
from dualgap.formulations import parametric_values
from dualgap.interrupts import ON_INTERRUPT
from dualgap.result import Status
from dualgap.solvers import SOLVERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dualgap.result import Certificate, History

# scikit-learn's own limits, so that its users meet the same errors.
RUN_CONSTRAINTS: dict[str, Any] = {
    "tol": [Interval(Real, 0.0, None, closed="neither")],
    "cache_size": [Interval(Real, 0, None, closed="neither")],
    "verbose": ["verbose"],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
    "solver": [StrOptions({"auto", *SOLVERS})],
    "gap_tol": [Interval(Real, 0.0, None, closed="neither"), None],
    "time_limit": [Interval(Real, 0.0, None, closed="neither"), None],
    "callback": [callable, None],
    "warm_start": ["boolean"],
    "checkpoint": [str, os.PathLike, None],
    "on_interrupt": [StrOptions(set(ON_INTERRUPT))],
    "parametric": [list, tuple, callable, None],
    "n_jobs": [Integral, None],
    "solver_options": [dict, None],
}

# What has a parameter of its own on the estimators (or is theirs to decide) and is no solver option.
_NOT_OPTIONS = (
    "tol",
    "first_tol",
    "gap_tol",
    "max_iter",
    "time_limit",
    "callback",
    "start",
    "warn",
    "checkpoint",
    "on_interrupt",
)


def _defaults_of(cls: Any) -> dict[str, Any]:
    """Parameters of an estimator in order, each with its default where that is valid; made once a class."""
    known = cls.__dict__.get("_known_defaults")
    if known is None or known[0] is not cls.__init__:
        parameters = signature(cls.__init__).parameters
        names = super(CertifiedEstimator, cls)._get_param_names()
        known = cls.__init__, {name: _valid_default(cls, parameters[name]) for name in names}
        cls._known_defaults = known
    return known[1]  # type: ignore[no-any-return]


def _valid_default(cls: Any, parameter: Parameter) -> Any:
    """The default of a parameter, or something that no parameter is."""
    try:
        validate_parameter_constraints(cls._parameter_constraints, {parameter.name: parameter.default}, cls.__name__)
    except ValueError:
        return Parameter.empty
    return parameter.default


class CertifiedEstimator(CallbackSupportMixin, BaseEstimator):  # type: ignore[misc]
    """Base of all estimators."""

    _session: Session

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        convert_arrays(cls)

    def _goal(self) -> float | None:
        """The relative gap to reach, or None where `tol` is one of violations."""
        return None if self.gap_tol is None else float(self.gap_tol)

    # -- warm starts ---------------------------------------------------------------------------------------------

    def _starts(self, count: int, shape: Any = None) -> list[Any]:
        """Solutions of the last fit, one a task; None where there are none, or they are of something else."""
        kept, last = getattr(self, "_kept", None), getattr(self, "_kept_shape", None)
        fits = self.warm_start and kept is not None and len(kept) == count and last == shape
        return list(kept) if fits and kept is not None else [None] * count

    def _keep_starts(self, kept: list[Any], shape: Any = None) -> None:
        """Keep the solutions for the next fit, where one is meant to start from them."""
        self.__dict__.pop("_kept_shape", None)
        if self.warm_start:
            self._kept, self._kept_shape = kept, shape
        elif hasattr(self, "_kept"):
            del self._kept

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Names of the parameters, read off the constructor once a class: a fit asks for them several times."""
        return list(_defaults_of(cls))

    def _validate_params(self) -> None:
        """Validate the parameters that are not what the constructor sets by itself, which is valid."""
        default = _defaults_of(type(self))
        given = {name: getattr(self, name) for name in default}
        changed = {name: value for name, value in given.items() if value is not default[name]}
        validate_parameter_constraints(self._parameter_constraints, changed, caller_name=type(self).__name__)

    def _keep_parameters(self, arguments: dict[str, Any]) -> None:
        """Store the constructor's arguments as they are, which is all that scikit-learn allows a constructor to do."""
        for name in self._get_param_names():
            setattr(self, name, arguments[name])

    def to_sklearn(self) -> Any:
        """A fitted scikit-learn estimator that predicts as this one does, without training it again.

        Returns
        -------
        estimator of `sklearn.svm`
            Of the same name.

        Raises
        ------
        ValueError
            Where this one is not fitted, or scikit-learn has no such machine.
        """
        from dualgap.estimators.sklearn_models import to_sklearn

        return to_sklearn(self)

    def _check_weights(self, sample_weight: Any, n: int) -> NDArray[np.float64]:
        """Weights as scikit-learn's support vector machines read them: zero and below leave a sample out."""
        if sample_weight is None:
            return np.ones(n)
        weight = check_array(
            sample_weight, dtype=np.float64, ensure_2d=False, input_name="sample_weight", ensure_min_samples=0
        )
        if weight.ndim == 0:
            weight = np.full(n, float(weight))
        if weight.shape != (n,):
            raise ValueError(
                f"sample_weight and X have incompatible shapes: {weight.shape} vs ({n},); pass one weight a sample."
            )
        if not np.any(weight > 0.0):
            raise ValueError("Invalid input - all samples have zero or negative weights.")
        return np.maximum(weight, 0.0)

    def _html_repr(self) -> str:
        """scikit-learn's diagram, and below it what is proved of a fitted estimator."""
        diagram = str(estimator_html_repr(self))
        return diagram + certificate_table(self) if hasattr(self, "certificate_") else diagram

    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """For notebooks. Older versions of scikit-learn do not ask `_html_repr` here."""
        bundle = {"text/plain": repr(self)}
        return {**bundle, "text/html": self._html_repr()} if get_config()["display"] == "diagram" else bundle

    def _options(self) -> dict[str, Any]:
        """`solver_options`, as `run.solve` takes them."""
        options = {key: value for key, value in (self.solver_options or {}).items() if key != "cache"}
        for key in _NOT_OPTIONS:
            if key in options:
                raise ValueError(
                    f"solver_options holds {key!r}, which is a parameter of {type(self).__name__}; set it there."
                )
        return options

    def _phi(self, X: Any, n: int) -> NDArray[np.float64] | None:
        """Values of the semi-parametric functions at the samples."""
        return None if self.parametric is None else parametric_values(self.parametric, X, n)

    def _keep_verdict(
        self,
        certificates: Sequence[Certificate],
        histories: Sequence[History],
        statuses: Sequence[Status],
        solver: str,
        shown: int,
    ) -> None:
        """Fitted attributes that tell how good the solution is; a warning, `shown` calls up, where it falls short."""
        self.certificates_ = list(certificates)
        self.certificate_ = combine(self.certificates_)
        self.history_ = histories[0] if len(histories) == 1 else list(histories)
        self.solver_ = solver
        self.status_ = next((s for s in statuses if s is not Status.CONVERGED), Status.CONVERGED)
        self.fit_status_ = int(self.status_ not in (Status.CONVERGED, Status.STOPPED))
        if self.fit_status_:
            warnings.warn(
                f"{type(self).__name__} ended short of its tolerance: {self.status_.message} "
                f"(max_iter={self.max_iter}, time_limit={self.time_limit}). Certified: {self.certificate_}.",
                ConvergenceWarning,
                stacklevel=shown + 1,
            )
