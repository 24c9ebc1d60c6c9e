"""From a fitted estimator to what its page shows."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.report.boundary import plane_of
from dualgap.report.data import ReportData
from dualgap.report.margins import margins_of
from dualgap.report.runs import runs_of, unwrap
from dualgap.report.scores import scores_of
from dualgap.report.versions import versions

if TYPE_CHECKING:
    from collections.abc import Mapping


def summarise(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    *,
    title: str | None = None,
    samples: str | None = None,
    facts: Mapping[str, str] | None = None,
) -> ReportData:
    """Gather what there is to say about a fitted estimator.

    Parameters
    ----------
    estimator : object
        A fitted estimator of dualgap, a pipeline that ends in one, or a search over one.
    X, y : array-like, optional
        Samples and their labels for scores, confusion matrix, margins and boundary: best ones that the estimator has
        not been fitted on.
    title : str, optional
        Heading of the page.
    samples : str, optional
        What X is, in words that can follow "On".
    facts : mapping of str to str, optional
        More facts, shown before the others.

    Returns
    -------
    ReportData
    """
    model, points = unwrap(estimator, X)
    if y is not None and X is None:
        raise ValueError("y is given without X: pass the samples as well.")
    runs = runs_of(model)
    values, confusion = ({}, None) if X is None else scores_of(model, points, y)
    if X is not None and samples is None:
        samples = f"the {points.shape[0]:,} samples given to the report" if hasattr(points, "shape") else "the samples"
    return ReportData(
        title=title or _title(estimator, model),
        certificate_rows=[(run.name, run.certificate) for run in runs],
        histories=[(run.name, run.history) for run in runs],
        status_sentences=[model.status_.message],
        facts={**(facts or {}), **_facts(estimator, model, runs)},
        confusion=confusion,
        scores=values,
        margins=None if X is None else margins_of(model, points, y),
        plane=plane_of(model, points, y),
        samples=samples or "",
        settings=_settings(model),
    )


def _title(estimator: Any, model: Any) -> str:
    name = type(model).__name__
    return name if estimator is model else f"{name} of {type(estimator).__name__}"


def _facts(estimator: Any, model: Any, runs: list[Any]) -> dict[str, str]:
    events = [run.history[-1] for run in runs if len(run.history)]
    facts = {"Solver": str(model.solver_)}
    shape = getattr(model, "shape_fit_", None)
    if shape is not None:
        facts["Fitted on"] = f"{shape[0]:,} samples" + (f", {shape[1]:,} features" if len(shape) > 1 else "")
    elif hasattr(model, "n_features_in_"):
        facts["Features"] = f"{model.n_features_in_:,}"
    if hasattr(model, "classes_"):
        facts["Classes"] = f"{len(model.classes_):,}"
    if hasattr(model, "support_"):
        facts["Support vectors"] = f"{len(model.support_):,}"
    if hasattr(model, "radius_"):
        facts["Radius"] = f"{model.radius_:.6g}"
    if hasattr(model, "epsilon_"):
        facts["Half width of the tube"] = f"{model.epsilon_:.6g} (found)"
    if hasattr(model, "_gamma") and getattr(model, "kernel", "") not in ("linear", "precomputed"):
        facts["gamma of the kernel"] = f"{model._gamma:.6g}"
    if events:
        facts["Iterations"] = f"{int(np.sum([event.iteration for event in events])):,}"
        facts["Time of the runs"] = f"{sum(event.seconds for event in events):.3g} s"
    if getattr(model, "approximation_", None) is not None:
        facts["Approximated kernel"] = str(model.approximation_)
    if hasattr(estimator, "best_params_"):
        best = ", ".join(f"{name} = {value}" for name, value in estimator.best_params_.items())
        facts["Chosen by search"] = f"{best}; score {getattr(estimator, 'best_score_', float('nan')):.5g}"
    return {**facts, **versions()}


def _settings(model: Any) -> dict[str, str]:
    """Parameters, those that differ from their defaults first and marked."""
    defaults = {name: one.default for name, one in signature(type(model).__init__).parameters.items()}
    values = model.get_params(deep=False)
    changed = [name for name in values if not _same(values[name], defaults.get(name))]
    rest = [name for name in values if name not in changed]
    said = {name: f"{_shown(values[name])} (default: {_shown(defaults.get(name))})" for name in changed}
    return {**said, "others": ", ".join(f"{name}={_shown(values[name])}" for name in rest)} if rest else said


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(np.all(value == default))


def _shown(value: Any) -> str:
    if callable(value):
        return str(getattr(value, "__name__", type(value).__name__))
    return repr(value)
