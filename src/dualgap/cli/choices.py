"""What is to be trained: the options of ``dualgap train``, checked against each other and the data."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from dualgap.cli.output import counted
from dualgap.cli.scores import number

if TYPE_CHECKING:
    from dualgap.datasets import Dataset

# Integers are taken for classes where there are few of them; between the two limits only where none is rare,
# which tells the 26 letters of the alphabet from ages, grades and counts.
_FEW_CLASSES, _MANY_CLASSES, _RARE = 10, 100, 5


class KernelName(StrEnum):
    """Kernels that a file can be trained with."""

    linear = "linear"
    poly = "poly"
    rbf = "rbf"
    sigmoid = "sigmoid"
    laplacian = "laplacian"
    chi2 = "chi2"
    precomputed = "precomputed"


class Task(StrEnum):
    """What the labels are."""

    auto = "auto"
    classification = "classification"
    regression = "regression"
    outlier = "outlier"


class FormulationName(StrEnum):
    """Rows of the formulation table that have an estimator."""

    c_svc = "c_svc"
    nu_svc = "nu_svc"
    eps_svr = "eps_svr"
    nu_svr = "nu_svr"
    one_class = "one_class"
    svdd = "svdd"


ESTIMATOR_OF = {
    "c_svc": "SVC",
    "nu_svc": "NuSVC",
    "eps_svr": "SVR",
    "nu_svr": "NuSVR",
    "one_class": "OneClassSVM",
    "svdd": "SVDD",
}
_USUAL = {"classification": "c_svc", "regression": "eps_svr", "outlier": "one_class"}
KERNEL_READS: dict[str, tuple[str, ...]] = {
    "linear": (),
    "poly": ("gamma", "degree", "coef0"),
    "rbf": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
    "laplacian": ("gamma",),
    "chi2": ("gamma",),
    "precomputed": (),
}


def listed(choices: type[StrEnum]) -> str:
    """The values of an option for its help."""
    return ", ".join(choice.value for choice in choices)


def given(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given; the others are left to the estimator."""
    return {name: value for name, value in options.items() if value is not None}


def option(name: str) -> str:
    """A parameter as the command line spells it."""
    return "-C" if name == "C" else "--" + name.replace("_", "-")


def gamma_choice(text: str) -> str | float:
    """The value of --gamma."""
    if text in ("scale", "auto"):
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"--gamma {text}: is neither scale, nor auto, nor a number.") from None


def check_kernel_options(kernel: str, options: dict[str, Any]) -> None:
    """An option that would be ignored is a mistake worth hearing about."""
    for name in given(options):
        if name not in KERNEL_READS[kernel]:
            readers = [known for known, reads in KERNEL_READS.items() if name in reads]
            raise ValueError(f"{option(name)} means nothing to --kernel {kernel}; it is for {', '.join(readers)}.")


def check_machine_options(row: str, options: dict[str, Any]) -> None:
    """Likewise for the parameters of the formulation."""
    from dualgap.formulations import FORMULATIONS

    for name in given(options):
        if name not in FORMULATIONS[row].parameters:
            readers = [known for known in ESTIMATOR_OF if name in FORMULATIONS[known].parameters]
            raise ValueError(f"{option(name)} means nothing to {row}; it is for --formulation {', '.join(readers)}.")


def choose(data: Dataset, task: str, formulation: str | None) -> tuple[str, str]:
    """The formulation, and a remark on how it was chosen."""
    from dualgap.formulations import FORMULATIONS

    if formulation is not None:
        own = FORMULATIONS[formulation].task
        if task not in ("auto", own):
            raise ValueError(f"--formulation {formulation} is for {own}, and --task says {task}.")
        task, why = own, ""
    elif task == "auto":
        task, why = _guess(data)
    else:
        why = ""
    if data.y is None and task != "outlier":
        raise ValueError(f"{data.source}: has no labels, which {task} needs; use --task outlier.")
    if task == "regression" and data.y is not None and data.y.dtype.kind == "U":
        raise ValueError(f"{data.source}: the labels are text, and regression needs numbers.")
    return formulation or _USUAL[task], why


def _guess(data: Dataset) -> tuple[str, str]:
    """The task that the labels suggest, and why."""
    import numpy as np

    if data.y is None:
        return "outlier", "the file has no labels"
    values, counts = np.unique(data.y, return_counts=True)
    found = counted(len(values), "distinct label")
    if len(values) == 1:
        raise ValueError(
            f"{data.source}: all samples have the label {number(values[0])}; use --task outlier to learn one class."
        )
    if values.dtype.kind == "U":
        return "classification", f"{found}, of text"
    if not np.all(values == np.rint(values)):
        return "regression", "the labels are not all integers"
    repeated = len(values) == 2 or 2 * len(values) <= len(data.y)
    few = len(values) <= _FEW_CLASSES and repeated
    common = len(values) <= _MANY_CLASSES and counts.min() >= _RARE
    if few or common:
        return "classification", f"{found}, all integers"
    return "regression", f"{found}, too many or too rare for classes"
