"""The layout of a model file: what the writer and the reader must agree on."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

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
from dualgap.result import Certificate, Event

FORMAT: Final = "dualgap model"
VERSION: Final = 1

LINEAR: Final = (LinearSVC, LinearSVR, LinearOneClassSVM, LinearSVDD)
ESTIMATORS: Final[dict[str, Any]] = {cls.__name__: cls for cls in (SVC, NuSVC, SVR, NuSVR, OneClassSVM, SVDD, *LINEAR)}
CLASSIFIERS: Final = (SVC, NuSVC)
# Never stored: callback and checkpoint are of a fit that is over, and functions are given again by who loads the file.
DROPPED: Final = frozenset({"callback", "checkpoint", "parametric"})
# Labels that are numbers are stored in the widest type of their kind and come back in their own.
LABEL_STORAGE: Final = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}
LABEL_TYPES: Final = frozenset(
    {"bool", "float16", "float32", "float64"} | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
CSR: Final = {"csr_matrix": sp.csr_matrix, "csr_array": sp.csr_array}
# Powers beyond this are 0, 1 or infinite for all but a few floats, and numpy takes no integer above 64 bits.
MAX_DEGREE: Final = 10**6
# `Event` is written with postponed annotations, so the types of its fields are text.
COUNTS: Final = tuple(f.name for f in fields(Event) if f.type == "int")
VALUES: Final = tuple(f.name for f in fields(Event) if f.type == "float")
EVENT_ORDER: Final = tuple(f.name for f in fields(Event))
# The last field of a certificate, its note, is text.
CERTIFICATE_NUMBERS: Final = len(fields(Certificate)) - 1
# Numbers of an `Approximation`; its other fields are text, a count and a truth value.
ASSESSED: Final = ("trace_error", "primal", "dual", "dual_estimate")
# A message from elsewhere that quotes a hostile value is cut to about a line.
EXCERPT: Final = 160
