"""Fit an estimator while a progress line watches, and say its warnings in this command's words."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

from dualgap.cli.output import warn

if TYPE_CHECKING:
    from dualgap.cli.progress import Progress
    from dualgap.datasets import Dataset


def watched_fit(model: Any, data: Dataset, progress: Progress) -> float:
    """Fit the model under a progress line that has not begun; returns the seconds it took."""
    with progress as watched, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.set_params(callback=watched.watch)
        began = time.perf_counter()
        model.fit(data.X, data.y)
        took = time.perf_counter() - began
    for warning in caught:
        # That a run ended short is said at the end, with a remedy for this command.
        if issubclass(warning.category, UserWarning) and "ended short" not in str(warning.message):
            warn(str(warning.message))
    return took
