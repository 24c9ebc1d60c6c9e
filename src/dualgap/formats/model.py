"""Fitted estimators in files: what predicts is stored as arrays, what explains as text, and no code at all.

The file has the layout of `dualgap.tensors`. Its arrays are::

    support, n_support      rows of the training data that are support vectors; how many (a class)
    support_vectors         these rows; .data, .indices and .indptr where they are sparse
    dual_coef, intercept    coefficients and thresholds, as scikit-learn lays them out
    coef, intercept         of linear estimators, which have none of the above but intercept
    classes, class_weight   of a classifier (labels that are text are in the metadata)
    tie_order               of a classifier that LIBSVM has trained: who wins where votes are equal
    probA, probB, calibration_*    what gives probabilities, where there is any
    parametric_coef         coefficients of semi-parametric functions; the functions are not stored
    offset, radius, epsilon where the estimator has them
    certificates            a row a binary task: primal, dual, gap, relative gap, KKT violation, infeasibility
    history_counts, history_values, history_lengths    the events of all tasks, one after the other
    n_iter                  iterations of each task

and its metadata are the names of the format and of the estimator, and JSON: ``params``, ``kernel``, ``fit``.
Loading makes one of our estimators or raises `ModelFileError`, whatever the file holds.
"""

from __future__ import annotations

import json
import os
from typing import Any

import dualgap
from dualgap.formats.model_content import Content
from dualgap.formats.model_layout import ESTIMATORS, FORMAT, LINEAR, VERSION
from dualgap.formats.model_reading import restore
from dualgap.formats.model_writing import encode_fit, encode_kernel, encode_params
from dualgap.tensors import ModelFileError, read_tensors, write_tensors


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file, all at once.

    Parameters
    ----------
    estimator : estimator of this package
        Fitted. A `callback` is not stored, nor are `parametric` functions (their coefficients are, and `load` asks for
        the functions) and the dual solution that `warm_start` starts from.
    path : path-like
        The file, in a directory that exists; replaced when the new one is complete.

    Raises
    ------
    ValueError
        Where the estimator is not fitted, or holds what no file without code can: a function as `kernel`. The message
        names the parameter and the remedy.
    OSError
        Where the system cannot write there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from dualgap import SVR, load, save
    >>> X = np.linspace(0, 1, 20).reshape(-1, 1)
    >>> model = SVR(gap_tol=1e-6).fit(X, X.ravel() ** 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "square.dualgap")
    ...     save(model, path)
    ...     same = load(path)
    >>> bool(np.all(same.predict(X) == model.predict(X))), same.certificate_ == model.certificate_
    (True, True)
    """
    name = type(estimator).__name__
    if ESTIMATORS.get(name) is not type(estimator):
        raise ValueError(f"a model file holds one of {', '.join(ESTIMATORS)}; got {name}.")
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    params = encode_params(estimator)
    kernel = {} if isinstance(estimator, LINEAR) else encode_kernel(estimator)
    arrays, fit = encode_fit(estimator)
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "writer": f"dualgap {dualgap.__version__}",
        "estimator": name,
        "params": json.dumps(params),
        "kernel": json.dumps(kernel),
        "fit": json.dumps(fit),
    }
    write_tensors(path, arrays, metadata)


def load(path: str | os.PathLike[str], *, parametric: Any = None) -> Any:
    """Read a fitted estimator from a file of any origin.

    Parameters
    ----------
    path : path-like
        A file that `save` has written.
    parametric : list of callables or callable, optional
        The functions of a semi-parametric model, as its fit was given them.

    Returns
    -------
    estimator of this package
        Predictions, certificates and history are those of the estimator that was saved, bit for bit.

    Raises
    ------
    ModelFileError
        A ValueError: the file is truncated, damaged, or no model of ours.
    OSError
        Where the system cannot read it.
    """
    arrays, metadata = read_tensors(path)
    try:
        return restore(Content(arrays, metadata), parametric)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}; save or copy the model again") from error
