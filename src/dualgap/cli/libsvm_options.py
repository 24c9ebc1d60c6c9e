"""The command lines of LIBSVM's programs, read as LIBSVM reads them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

TRAIN_USAGE: Final = """\
Usage: svm-train [options] training_set_file [model_file]
options:
-s svm_type : set type of SVM (default 0)
	0 -- C-SVC		(multi-class classification)
	1 -- nu-SVC		(multi-class classification)
	2 -- one-class SVM
	3 -- epsilon-SVR	(regression)
	4 -- nu-SVR		(regression)
-t kernel_type : set type of kernel function (default 2)
	0 -- linear: u'*v
	1 -- polynomial: (gamma*u'*v + coef0)^degree
	2 -- radial basis function: exp(-gamma*|u-v|^2)
	3 -- sigmoid: tanh(gamma*u'*v + coef0)
	4 -- precomputed kernel (kernel values in training_set_file)
-d degree : set degree in kernel function (default 3)
-g gamma : set gamma in kernel function (default 1/num_features)
-r coef0 : set coef0 in kernel function (default 0)
-c cost : set the parameter C of C-SVC, epsilon-SVR, and nu-SVR (default 1)
-n nu : set the parameter nu of nu-SVC, one-class SVM, and nu-SVR (default 0.5)
-p epsilon : set the epsilon in loss function of epsilon-SVR (default 0.1)
-m cachesize : set cache memory size in MB (default 100)
-e epsilon : set tolerance of termination criterion (default 0.001)
-h shrinking : whether to use the shrinking heuristics, 0 or 1 (default 1)
-b probability_estimates : whether to train a SVC or SVR model for probability estimates, 0 or 1 (default 0)
-wi weight : set the parameter C of class i to weight*C, for C-SVC (default 1)
-v n: n-fold cross validation mode
-q : quiet mode (no outputs)
"""
PREDICT_USAGE: Final = """\
Usage: svm-predict [options] test_file model_file output_file
options:
-b probability_estimates: whether to predict probability estimates, 0 or 1 (default 0); for one-class SVM only 0 is \
supported
-q : quiet mode (no outputs)
"""
# The formulations and kernels by LIBSVM's numbers.
ROWS: Final = ("c_svc", "nu_svc", "one_class", "eps_svr", "nu_svr")
KERNELS: Final = ("linear", "poly", "rbf", "sigmoid", "precomputed")


class UsageError(ValueError):
    """A command line that cannot be read: the usage belongs below the message."""


class ParameterError(ValueError):
    """A parameter out of its range."""


@dataclass
class TrainOptions:
    """What svm-train was asked for."""

    row: str = "c_svc"
    kernel: str = "rbf"
    degree: int = 3
    gamma: float = 0.0
    coef0: float = 0.0
    C: float = 1.0
    nu: float = 0.5
    epsilon: float = 0.1
    cache_size: float = 100.0
    tol: float = 1e-3
    shrinking: bool = True
    probability: bool = False
    weights: dict[int, float] = field(default_factory=dict)
    folds: int = 0
    quiet: bool = False
    data: Path = Path()
    model: Path = Path()

    @property
    def classifies(self) -> bool:
        """Whether labels are classes."""
        return self.row in ("c_svc", "nu_svc")

    @property
    def regresses(self) -> bool:
        """Whether labels are values."""
        return self.row in ("eps_svr", "nu_svr")


@dataclass
class PredictOptions:
    """What svm-predict was asked for."""

    probability: bool = False
    quiet: bool = False
    data: Path = Path()
    model: Path = Path()
    output: Path = Path()


def read_train_options(arguments: Sequence[str]) -> TrainOptions:
    """Read svm-train's command line.

    Raises
    ------
    UsageError
        For an unknown option, a missing or malformed value, and too few or too many files.
    ParameterError
        For a value out of range, in LIBSVM's words.
    """
    options, switches = TrainOptions(), dict.fromkeys("hb", False)
    chosen = {"s": 0, "t": 2}
    numbers: dict[str, tuple[str, Callable[[str, str], float]]] = {
        "d": ("degree", _whole),
        "g": ("gamma", _number),
        "r": ("coef0", _number),
        "c": ("C", _number),
        "n": ("nu", _number),
        "p": ("epsilon", _number),
        "m": ("cache_size", _number),
        "e": ("tol", _number),
    }
    switches["h"] = True
    words = _Words(arguments)
    while (option := words.option()) is not None:
        letter = option[1:2]
        if option == "-q":
            options.quiet = True
        elif letter == "w" and option[2:]:
            label = _whole(option[2:], option)
            options.weights[label] = options.weights.get(label, 1.0) * _number(words.value(option), option)
        elif len(option) != 2:
            raise UsageError(f"Unknown option: {option}")
        elif letter in numbers:
            name, read = numbers[letter]
            setattr(options, name, read(words.value(option), option))
        elif letter in chosen:
            chosen[letter] = _whole(words.value(option), option)
        elif letter in switches:
            switches[letter] = _switch(words.value(option), option)
        elif letter == "v":
            options.folds = _whole(words.value(option), option)
            if options.folds < 2:
                raise UsageError("n-fold cross validation: n must >= 2")
        else:
            raise UsageError(f"Unknown option: {option}")
    options.shrinking, options.probability = switches["h"], switches["b"]
    files = words.files("training_set_file", "[model_file]")
    options.data = Path(files[0])
    options.model = Path(files[1]) if len(files) == 2 else Path(f"{options.data.name}.model")
    _check(options, chosen)
    return options


def read_predict_options(arguments: Sequence[str]) -> PredictOptions:
    """Read svm-predict's command line.

    Raises
    ------
    UsageError
        For an unknown option, a missing or malformed value, and too few or too many files.
    """
    options, words = PredictOptions(), _Words(arguments)
    while (option := words.option()) is not None:
        if option == "-q":
            options.quiet = True
        elif option == "-b":
            options.probability = _switch(words.value(option), option)
        else:
            raise UsageError(f"Unknown option: {option}")
    data, model, output = words.files("test_file", "model_file", "output_file")
    options.data, options.model, options.output = Path(data), Path(model), Path(output)
    return options


class _Words:
    """The words of a command line, taken one by one: options first, then files."""

    def __init__(self, words: Sequence[str]) -> None:
        self._left = list(words)

    def option(self) -> str | None:
        """The next word, where it is an option."""
        return self._left.pop(0) if self._left and self._left[0].startswith("-") else None

    def value(self, option: str) -> str:
        """The word that belongs to an option."""
        if not self._left:
            raise UsageError(f"{option} needs a value")
        return self._left.pop(0)

    def files(self, *names: str) -> list[str]:
        """All that is left; names in brackets need not be there."""
        least = sum(not name.startswith("[") for name in names)
        if not least <= len(self._left) <= len(names):
            found = " ".join(self._left) or "nothing"
            raise UsageError(f"expected {' '.join(names)} after the options; found {found}")
        return self._left


def _number(text: str, option: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{option} {text}: not a number")
    return value


def _whole(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{option} {text}: not a whole number") from None


def _switch(text: str, option: str) -> bool:
    if text not in ("0", "1"):
        raise UsageError(f"{option} {text}: must be 0 or 1")
    return text == "1"


def _check(options: TrainOptions, chosen: dict[str, int]) -> None:
    """LIBSVM's own checks, in its words."""
    if not 0 <= chosen["s"] < len(ROWS):
        raise ParameterError("unknown svm type")
    if not 0 <= chosen["t"] < len(KERNELS):
        raise ParameterError("unknown kernel type")
    options.row, options.kernel = ROWS[chosen["s"]], KERNELS[chosen["t"]]
    faults = {
        "gamma < 0": options.gamma < 0 and options.kernel in ("poly", "rbf", "sigmoid"),
        "degree of polynomial kernel < 0": options.degree < 0 and options.kernel == "poly",
        "cache_size <= 0": options.cache_size <= 0,
        "eps <= 0": options.tol <= 0,
        "C <= 0": options.C <= 0 and options.row in ("c_svc", "eps_svr", "nu_svr"),
        "nu <= 0 or nu > 1": not 0 < options.nu <= 1 and options.row in ("nu_svc", "one_class", "nu_svr"),
        "p < 0": options.epsilon < 0 and options.row == "eps_svr",
        "one-class SVM probability output not supported yet": options.probability and options.row == "one_class",
        "weight of a class < 0": min(options.weights.values(), default=0.0) < 0 and options.row == "c_svc",
    }
    for fault, found in faults.items():
        if found:
            raise ParameterError(fault)
