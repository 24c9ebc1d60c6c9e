"""Descriptions of the parameters that the estimators share, written once and put into each docstring."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)

_TEXTS = {
    "C": """C : float, default=1.0
    Price of an error against the size of the margin; must be positive. Infinity (1e10) allows no errors.""",
    "nu": """nu : float, default=0.5
    In (0, 1]: upper bound on the fraction of errors, lower bound on that of support vectors.""",
    "epsilon": """epsilon : float, default=0.1
    Half width of the tube within which errors cost nothing.""",
    "radius": """C : float, default=1.0
    Price of a point outside the ball, at least 1/n_samples; ``C = 1 / (nu * n_samples)`` leaves out about a
    fraction nu of the points, and from 1 on none.""",
    "kernel": """kernel : {"linear", "poly", "rbf", "sigmoid", "laplacian", "chi2", "precomputed"} or callable
    Kernel function; a callable takes two sets of samples and returns one value a pair.
degree : int, default=3
    Degree of "poly".
gamma : {"scale", "auto"} or float, default="scale"
    Coefficient of every kernel but "linear"; "scale" is 1 / (n_features * X.var()), "auto" 1 / n_features.
    With sample weights the variance is that of the weighted samples: a weight of two is the same sample twice.
coef0 : float, default=0.0
    Constant of "poly" and "sigmoid".
shrinking : bool, default=True
    Whether settled variables are set aside during a run.
tol : float, default=1e-3
    KKT violation to reach, where `gap_tol` is None. Tasks of up to 256 variables are then finished to the precision of
    float64 (with ``solver="auto"``), which takes a few milliseconds.
cache_size : float, default=200
    Megabytes for kernel values.
verbose : bool or int, default=False
    Show the gap on its way to the goal and the time left; from 2 on, print a line for every event.
max_iter : int, default=-1
    Iterations at most; -1 for no limit.""",
    "classifier": """class_weight : dict, "balanced" or None
    Factor of C for each class.
decision_function_shape : {"ovr", "ovo"}, default="ovr"
    Shape of the decision function with more than two classes.
break_ties : bool, default=False
    Break ties of votes by the decision function ("ovr" only).
random_state : int, RandomState or None
    Deals out the folds of the calibration, where there is one; None deals the same every time. Fits themselves are
    deterministic.""",
    "probability": """probability : bool, default=False
    Whether `predict_proba` is wanted. Every task is then trained `calibration_cv` times more, each time without a part
    of the samples, over the same kernel matrix.
calibration : {"sigmoid", "isotonic"}, default="sigmoid"
    What turns decision values into probabilities: Platt's sigmoid, or a monotone step function, which takes more
    samples (a thousand or so) to be the better one.
calibration_cv : int, default=5
    Parts of the samples for the calibration.""",
    "multi_class": """multi_class : {"ovo", "ovr"}, default="ovo"
    How more than two classes are told apart: one against one, as in LIBSVM, or one against the rest. Against the rest
    there is a task a class over one shared kernel matrix: `decision_function` has a column and `dual_coef_` a row a
    class, and the largest decision value wins.""",
    "tube": """epsilon : float, default=0.0
    Half width of the tube within which errors cost nothing.""",
    "penalty": """penalty : {"l2", "l1"}, default="l2"
    Half the sum of squared weights, or the sum of absolute ones, which sets many of them to zero.
loss : {"squared_hinge", "hinge"}, default="squared_hinge"
    The price of an error, squared or as it is. Either goes with either penalty.""",
    "regression loss": """loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}
    The price of an error beyond the tube, as it is (the default) or squared.""",
    "linear classifier": """multi_class : {"ovr", "crammer_singer"}, default="ovr"
    One class against the rest, or all classes at once (Crammer and Singer), which takes neither `loss` nor `penalty`.
class_weight : dict, "balanced" or None
    Factor of C for each class; with more than two classes for its own task against the rest, as in LIBLINEAR.""",
    "linear bias": """fit_intercept : bool, default=True
    Whether there is a bias.
intercept_scaling : float, default=1
    Value of the constant feature whose weight is a penalised bias: the larger, the less the penalty matters.
penalize_intercept : bool or "auto", default="auto"
    Whether the bias is penalised like a weight. "auto" does as scikit-learn does, which is to penalise it, wherever
    scikit-learn has the model (it lacks "l1" with "hinge"). False is the machine of the textbooks, and of `SVC`.
dual : bool or "auto"
    Accepted for compatibility: one solver gives the solutions of both problems.""",
    "linear": """tol : float, default=1e-4
    Relative duality gap to reach, where `gap_tol` is None. (LIBLINEAR's `tol` is one of gradients.) Tasks of up to 256
    variables are then finished to the precision of float64, with the squared weights for a penalty.
verbose : int, default=0
    Show the gap on its way to the goal and the time left; from 2 on, print a line for every event.
max_iter : int, default=1000
    Newton steps, or passes over the data, at most; -1 for no limit.
cache_size : float, default=200
    Megabytes for kernel values, which only solvers that are not made for linear models ask for.""",
    "compatible": """random_state : int, RandomState or None
    Accepted for compatibility; fits are deterministic.""",
    "ours linear": """solver : str, default="auto"
    Name of a solver (`dualgap.SOLVERS`); "newton", "dcd", "pcd" and "pegasos" are made for linear models.
gap_tol : float or None, default=None
    Relative duality gap to reach, in place of `tol`.
time_limit : float or None
    Seconds at most for each task.
callback : callable or None
    Called with an `Event` between chunks of work; returning True stops.
warm_start : bool, default=False
    Keep the solution of a fit, and start the next one from it where samples and classes are as many.
checkpoint : path-like or None, default=None
    A file to keep the state of the fit in: at most every ten seconds, at its end and when it is interrupted. Where the
    file exists, `fit` goes on from there; one that belongs to other data or parameters is an error. It stays after a
    fit.
on_interrupt : {"raise", "keep"}, default="raise"
    What Ctrl-C does: raise, and leave the estimator as it was, or end the fit with the best solution so far and its
    certificate (and a warning).
parametric : list of callables, callable or None
    Functions phi_j of X whose unpenalised combination is added to the decision function.
n_jobs : int or None
    Threads; None means all cores.
solver_options : dict or None
    Further settings of the solver (its ``Options``) and ``polish`` (a second solver that finishes what the first one
    begins).""",
    "ours": """solver : str, default="auto"
    Name of a solver (`dualgap.SOLVERS`).
gap_tol : float or None, default=None
    Relative duality gap to reach, in place of `tol`.
time_limit : float or None
    Seconds at most for each binary task.
callback : callable or None
    Called with an `Event` between chunks of work; returning True stops.
warm_start : bool, default=False
    Keep the solution of a fit, and start the next one from it where samples and classes are as many.
checkpoint : path-like or None, default=None
    A file to keep the state of the fit in: at most every ten seconds, at its end and when it is interrupted. Where the
    file exists, `fit` goes on from there; one that belongs to other data or parameters is an error. It stays after a
    fit.
on_interrupt : {"raise", "keep"}, default="raise"
    What Ctrl-C does: raise, and leave the estimator as it was, or end the fit with the best solution so far and its
    certificate (and a warning).
parametric : list of callables, callable or None
    Functions phi_j of X whose unpenalised combination is added to the decision function.
n_jobs : int or None
    Threads for kernel products; None means all cores.
solver_options : dict or None
    Further settings of the solver (its ``Options``), ``cache`` ("row" or "element") and ``polish`` (a second solver
    that finishes what the first one begins, such as "rosen").
approximation : {"sgma", "rpcholesky"} or None, default=None
    Train on a low-rank kernel matrix: the machine's function is kept within the span of `rank` basis functions
    ``k(x_j, .)`` at training points x_j, chosen by sparse greedy matrix approximation or by randomly pivoted
    Cholesky. Any kernel but an indefinite one (sigmoid) can be approximated.
rank : int, default=200
    Basis functions of the approximation at most (no more than there are samples).
approximation_options : dict or None
    Further settings of the approximation: ``trace_tol``, ``seed``, ``dtype`` of the factor, ``selection`` of "sgma"
    and ``block`` of "rpcholesky" (see `dualgap.kernels.lowrank`).""",
}

_VERDICT = """certificate_ : Certificate
    Primal and dual objective, gap, KKT violation and infeasibility, recomputed in float64 (over all tasks).
certificates_ : list of Certificate
    The same for each binary task.
history_ : History, or list of History with several tasks
    What happened during the fit.
solver_ : str
    The solver that ran.
status_ : Status
    How the run ended.
"""
_KERNEL_ATTRIBUTES = """support_, support_vectors_, dual_coef_, intercept_, n_support_, n_iter_, fit_status_, shape_fit_
    As in scikit-learn. With an approximation the expansion is over the basis: `support_` and `support_vectors_` are
    the basis points (`n_support_` of them, a class each in classification), and `dual_coef_` holds the coefficients
    of their kernel functions, no longer bounded by C, in a row for each binary task.
approximation_ : Approximation or None
    With an approximation, its method, rank and relative trace error, and `true_gap`: a proved bound of the fitted
    model's relative gap for the true kernel. `certificate_` is that of the approximate problem.
parametric_coef_ : ndarray of shape (n_tasks, n_functions)
    Coefficients of the semi-parametric functions."""


_LINEAR_ATTRIBUTES = """coef_, intercept_, n_iter_, n_features_in_, feature_names_in_
    As in scikit-learn, in float64 whatever the data is. `n_iter_` is the largest of all tasks.
offset_, center_, radius_
    Of outlier detectors: what is taken off `score_samples`; of the ball, its centre and its radius.
parametric_coef_ : ndarray of shape (n_tasks, n_functions)
    Coefficients of the semi-parametric functions."""

# What follows an estimator's own parameters, and its attributes.
_KINDS = {"kernel": ("ours", _VERDICT + _KERNEL_ATTRIBUTES), "linear": ("ours linear", _VERDICT + _LINEAR_ATTRIBUTES)}


def documented(*parts: str, kind: str = "kernel") -> Callable[[_Class], _Class]:
    """Add the Parameters and Attributes sections made of the named parts to a class's docstring."""

    def decorate(cls: _Class) -> _Class:
        ours, attributes = _KINDS[kind]
        sections = [("Parameters", "\n".join(_TEXTS[part] for part in (*parts, ours))), ("Attributes", attributes)]
        text = (cls.__doc__ or "").rstrip()
        first = "    Notes\n" if "    Notes\n" in text else "    Examples\n"
        head, marker, examples = text.partition(first)
        for title, body in sections:
            lines = [title, "-" * len(title), *body.splitlines()]
            head = head.rstrip() + "\n\n" + "\n".join(f"    {line}" if line else "" for line in lines)
        cls.__doc__ = head + ("\n\n" + marker + examples if marker else "") + "\n    "
        return cls

    return decorate
