"""What turns a classifier's decision values into probabilities, as arrays of a model file.

A sigmoid has two numbers a task, `probA_` and `probB_`; isotonic regression has thresholds, decision values and the
probabilities there, in `calibration_thresholds_`. Where a classifier was fitted without probabilities, all of them are
empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dualgap.estimators.calibration import forget
from dualgap.tensors import ModelFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.formats.model_content import Content

# Arrays of a file, and the attributes they are of. Density marks are those of LIBSVM's one-class machines.
_PLAIN: Final = {"probA": "probA_", "probB": "probB_", "prob_density_marks": "prob_density_marks_"}
_THRESHOLDS: Final = "calibration_thresholds_"


def encode_calibration(estimator: Any) -> dict[str, NDArray[Any]]:
    """Arrays of what the estimator has; an empty one is no array of the file."""
    found = {
        name: np.asarray(getattr(estimator, attribute, ()), dtype=np.float64) for name, attribute in _PLAIN.items()
    }
    arrays: dict[str, NDArray[Any]] = {name: array for name, array in found.items() if array.size}
    steps = getattr(estimator, _THRESHOLDS, ())
    if steps:
        arrays["calibration_lengths"] = np.array([len(values) for values, _ in steps], dtype=np.int64)
        arrays["calibration_steps"] = np.concatenate([np.empty((2, 0)), *(np.array(step) for step in steps)], axis=1)
    return arrays


def decode_calibration(estimator: Any, content: Content, tasks: int) -> None:
    """Set the attributes that the file has arrays of; a classifier without them is left as a fit leaves it."""
    if hasattr(estimator, "calibration"):
        forget(estimator)
    for name, attribute in _PLAIN.items():
        if name in content.arrays:
            found = content.numbers(name, (None,))
            if name != "prob_density_marks" and len(found) not in (0, tasks):
                raise ModelFileError(f"array {name!r} has {len(found)} values for {tasks} tasks")
            setattr(estimator, attribute, found)
    if len(getattr(estimator, "probA_", ())) != len(getattr(estimator, "probB_", ())) and hasattr(
        estimator, "classes_"
    ):
        raise ModelFileError("arrays 'probA' and 'probB' are not of one length")
    if "calibration_lengths" in content.arrays:
        setattr(estimator, _THRESHOLDS, _decode_steps(content, tasks))


def _decode_steps(content: Content, tasks: int) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    steps = content.numbers("calibration_steps", (2, None))
    lengths = content.naturals("calibration_lengths", np.int64, (None,), steps.shape[1] + 1)
    if len(lengths) not in (0, tasks) or sum(lengths.tolist()) != steps.shape[1] or np.any(lengths == 0):
        raise ModelFileError("array 'calibration_lengths' does not cut the steps into tasks")
    pieces = np.split(steps, np.cumsum(lengths)[:-1], axis=1) if len(lengths) else []
    for values, probabilities in pieces:
        if np.any(np.diff(values) < 0) or probabilities.min() < 0 or probabilities.max() > 1:
            raise ModelFileError("array 'calibration_steps' is no monotone step function of probabilities")
    return [(values.copy(), probabilities.copy()) for values, probabilities in pieces]
