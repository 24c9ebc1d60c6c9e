"""Files that the commands read and write."""

from __future__ import annotations

import os
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualgap.datasets import Dataset


def check_output(path: Path | None, option: str, *taken: Path | None) -> None:
    """Find out, before any work is done, whether `path` can be written; `taken` are files it must not be."""
    if path is None:
        return
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise ValueError(f"{option} {path}: is a directory; name a file in it.")
    if target.exists() and not target.is_file():
        raise ValueError(f"{option} {path}: is a device or a pipe; name a plain file.")
    if any(other is not None and target == Path(os.path.realpath(other)) for other in taken):
        raise ValueError(f"{option} {path}: is named twice in this command; choose another name.")
    if not target.parent.is_dir():
        raise ValueError(f"{option} {path}: the folder {target.parent} does not exist; create it first.")
    try:
        # The only sure test: permissions alone do not tell of read-only and full file systems.
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise ValueError(f"{option} {path}: cannot write in {target.parent} ({error.strerror}).") from error


def label_choice(text: str) -> str | int | None:
    """The label column that a command line names: a number, "none", or a name."""
    if text.lower() == "none":
        return None
    try:
        return int(text)
    except ValueError:
        return text


def header_choice(header: bool | None) -> bool | str:
    """Whether a table has a header, where it is said."""
    return "auto" if header is None else header


def compact(X: Any) -> Any:
    """The samples as an array where that takes no more memory than the sparse matrix they came in."""
    import scipy.sparse as sp

    if not sp.issparse(X):
        return X
    sparse_bytes = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    return X.toarray() if X.shape[0] * X.shape[1] * X.dtype.itemsize <= sparse_bytes else X


def read_for(model: Any, path: Path, label_column: str, header: bool | None) -> Dataset:
    """Read samples for a fitted model, in the layout and with the number of features it was fitted on."""
    import numpy as np
    import scipy.sparse as sp

    from dualgap.datasets import Dataset, load

    # A linear model has no support vectors, and takes samples of any layout.
    vectors = getattr(model, "support_vectors_", None)
    dtype = np.float64 if vectors is None else vectors.dtype
    choices: dict[str, Any] = {"header": header_choice(header), "dtype": dtype}
    data = load(path, label_column=label_choice(label_column), **choices)
    wanted = model.n_features_in_
    X: Any = data.X
    archive = zipfile.is_zipfile(path)
    if X.shape[1] == wanted - 1 and label_column == "auto" and not sp.issparse(X) and not archive:
        # A table as wide as the samples has no column left for labels.
        data = load(path, label_column=None, **choices)
        X = data.X
    if sp.issparse(X) and X.shape[1] < wanted and not archive:
        # LIBSVM text does not mention features that are zero in every sample.
        X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], wanted))
    if X.shape[1] != wanted:
        raise ValueError(
            f"{path}: has {X.shape[1]} features where the model was trained on {wanted}; "
            f"check the file, --label-column and --header."
        )
    _check_names(data, model)
    X = X if vectors is None or sp.issparse(vectors) or not sp.issparse(X) else X.toarray()
    return Dataset(X, data.y, data.feature_names, data.source)


def _check_names(data: Dataset, model: Any) -> None:
    """Columns in another order than at training time would be taken for one another."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or data.feature_names is None:
        return
    for position, (found, known) in enumerate(zip(data.feature_names, names, strict=True), 1):
        if found != known:
            raise ValueError(
                f"{data.source}: feature {position} is {found!r} where the model was trained on {known!r}; "
                f"put the columns in the order of the training data."
            )
