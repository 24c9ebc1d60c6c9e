"""What ``dualgap train`` says about a run, on the terminal and on its HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualgap.cli.choices import ESTIMATOR_OF, KERNEL_READS, option
from dualgap.cli.output import counted, evidence, fact, seconds, verdict, warn
from dualgap.cli.scores import number
from dualgap.report.wording import at_most

if TYPE_CHECKING:
    from dualgap.cli.scores import Scores
    from dualgap.datasets import Dataset
    from dualgap.report import ReportData
    from dualgap.result import Certificate

# Spreads of features that differ by more than this leave the kernel blind to the smaller ones.
_UNEVEN = 1000.0
# Samples on the page of a run whose training samples are too many to be scored unasked.
_SHOWN = 5_000


@dataclass(frozen=True)
class Run:
    """A fitted model, how long it took, and how long loading compiled code took before."""

    row: str
    model: Any
    seconds: float
    loading: float

    def tasks(self) -> list[tuple[str, Certificate]]:
        """Each binary task by name, with its certificate."""
        from itertools import combinations

        certificates = self.model.certificates_
        if len(certificates) == 1:
            return [(self.row, certificates[0])]
        labels = [number(label) for label in self.model.classes_]
        names = [f"{first} against {second}" for first, second in combinations(labels, 2)]
        return list(zip(names, certificates, strict=True))


def tell_data(data: Dataset, row: str, why: str) -> None:
    """What is about to be trained on, and what the labels are taken for."""
    import numpy as np

    from dualgap.formulations import FORMULATIONS

    fact("data", f"{Path(data.source).name}: {_shape(data.X)}")
    task = FORMULATIONS[row].task
    if task == "outlier":
        task = "outlier detection"
    if task == "classification" and data.y is not None:
        task += f" into {counted(len(np.unique(data.y)), 'class', 'classes')}"
    fact("task", task + (f" ({why}; --task chooses another)" if why else ""))
    hint = _unevenness(data.X)
    if hint:
        fact("hint", hint)


def _shape(X: Any) -> str:
    samples, features = X.shape
    shape = f"{counted(samples, 'sample')}, {counted(features, 'feature')}, {X.dtype}"
    return shape + (f", sparse ({X.nnz / (samples * features):.2%} nonzero)" if hasattr(X, "nnz") else "")


def _unevenness(X: Any) -> str:
    """A word on features of very different spread, which most kernels cannot make use of."""
    import numpy as np

    if hasattr(X, "nnz"):
        return ""
    spread = np.ptp(X, axis=0)
    varying = spread[spread > 0]
    ratio = float(varying.max() / varying.min()) if varying.size else 1.0
    if ratio < _UNEVEN:
        return ""
    return (
        f"the ranges of the features differ by a factor of {ratio:.0e}; a kernel sees little of the smaller "
        f"ones, so scale them to similar ranges first"
    )


def tell_run(run: Run, data: Dataset, scores: Scores) -> None:
    """How the run went, how good its result is proved to be, and how well it fits."""
    import numpy as np

    model = run.model
    fact("model", _settings(run))
    iterations = int(np.sum(model.n_iter_))
    goal = "reached its tolerance" if model.fit_status_ == 0 else "ended short of its tolerance"
    pairs = "" if len(model.certificates_) == 1 else f" over {len(model.certificates_)} pairs of classes"
    effort = f"{counted(iterations, 'iteration')} and {seconds(run.seconds)}"
    fact("solver", f"{model.solver_} {goal} after {effort}{pairs} (loading code: {seconds(run.loading)})")
    fact("certificate", verdict(model.certificate_), style="green" if model.fit_status_ == 0 else "yellow")
    if not model.certificate_.note:
        fact("", evidence(model.certificate_))
    if len(model.certificates_) > 1:
        name, worst = max(run.tasks(), key=lambda task: _badness(task[1]))
        fact("", f"worst of the {len(model.certificates_)} pairs: {name}, {_gap(worst)}")
    count, total = len(model.support_), data.X.shape[0]
    fact("support", f"{count:,} of {counted(total, 'sample')} ({count / total:.1%}) are support vectors")
    for name, value in scores.values.items():
        fact("score" if name == next(iter(scores.values)) else "", f"{name} {value:.4f} on the training data")


def _badness(certificate: Certificate) -> tuple[bool, float]:
    return bool(certificate.note), certificate.kkt_violation if certificate.note else certificate.relative_gap


def _gap(certificate: Certificate) -> str:
    """The gap of one task in a few words."""
    if certificate.note:
        return f"no gap, KKT violation {at_most(certificate.kkt_violation)}"
    return f"gap {at_most(certificate.relative_gap)}"


def _settings(run: Run) -> str:
    from dualgap.formulations import FORMULATIONS

    model = run.model
    kernel = model._kernel
    reads = KERNEL_READS[kernel.name]
    formula = ", ".join(f"{name} {getattr(kernel, name):.6g}" for name in reads)
    values = ", ".join(f"{name} {getattr(model, name):.6g}" for name in FORMULATIONS[run.row].parameters)
    return f"{run.row} with {values}; kernel {kernel.name}" + (f" with {formula}" if formula else "")


def page(run: Run, data: Dataset, scored: bool) -> ReportData:
    """What the HTML page shows; of many samples, unless all have been scored, a part."""
    import numpy as np

    from dualgap.report.estimator import summarise

    total = data.X.shape[0]
    X, y, samples = data.X, data.y, f"the {total:,} training samples"
    if not scored and total > _SHOWN:
        part = np.unique(np.linspace(0, total - 1, _SHOWN).astype(np.intp))
        # Rows of a precomputed kernel are samples as well; its columns stay.
        X, y, samples = X[part], None if y is None else y[part], f"{len(part):,} of {samples}"
    facts = {
        "Data": f"{data.source}: {_shape(data.X)}",
        "Model": _settings(run),
        "Training time": seconds(run.seconds),
    }
    title = f"{ESTIMATOR_OF[run.row]} on {Path(data.source).name}"
    if run.row == "svdd" and run.model.kernel == "precomputed":
        # The ball needs k(x, x) of the samples, which rows of a kernel matrix do not say.
        return summarise(run.model, title=title, facts=facts)
    return summarise(run.model, X, y, title=title, samples=samples, facts=facts)


def warn_short(model: Any) -> None:
    """Say that the tolerance was not reached, and what to do about it."""
    if model.gap_tol is not None:
        goal = f"the relative gap of {model.gap_tol:g} asked for"
    else:
        goal = f"the KKT violation of {model.tol:g} asked for"
    remedy = model.status_.message
    for name in ("max_iter", "time_limit"):
        remedy = remedy.replace(name, option(name))
    warn(f"{goal} was not reached: {remedy}.")
