"""Mutated files for every reader: small good ones, what is done to them, and what a reader may answer.

A reader may return, or raise its one documented exception. Anything else, a crash, a hang or memory out of all
proportion, is a fault. `test_fuzz.py` runs some thousands of these; `benchmarks/fuzz_readers.py` as many as asked for.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tempfile
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import dualgap
from dualgap.datasets import DataFileError
from dualgap.datasets import load as load_data
from dualgap.formats.liblinear_model import read_liblinear_model, write_liblinear_model
from dualgap.formats.libsvm_model import read_libsvm_model, write_libsvm_model
from dualgap.tensors import ModelFileError

# How a reader is called, the one exception that it documents, and the suffix that its files have.
READERS = {
    "native": (dualgap.load, ModelFileError, ".dualgap"),
    "libsvm model": (read_libsvm_model, ModelFileError, ".model"),
    "liblinear model": (read_liblinear_model, ModelFileError, ".model"),
    "libsvm data": (lambda path: load_data(path, format="libsvm"), DataFileError, ".svm"),
    "csv data": (lambda path: load_data(path, format="csv"), DataFileError, ".csv"),
    "npz data": (lambda path: load_data(path, format="npz"), DataFileError, ".npz"),
    "any data": (load_data, DataFileError, ".data"),
}
# Numbers and names that readers trip over.
TOKENS = [
    *[b"0", b"-1", b"1", b"2147483647", b"2147483648", b"-2147483649", b"4294967296", b"9223372036854775807"],
    *[b"9223372036854775808", b"18446744073709551616", b"99999999999999999999999", b"1e308", b"1e999", b"-1e999"],
    *[b"nan", b"inf", b"-inf", b"1e-400", b"0x10", b"1_0", b"", b" ", b"\n", b"\t", b"\x00", b"\xff", b":", b"1:1"],
    *[b"0:1", b"#", b",", b'"', b"{", b"[", b"]", b"}", b"null", b"true", b"\\ud800", "é".encode(), b"\xe2\x82"],
    *[b"SV", b"w", b"label", b"nr_class", b"total_sv", b"rho", b"qid:1", b"1" * 400, b"[" * 300, b"NaN", b"Infinity"],
]
# New samples for a model that is accepted have no more features than this.
WIDEST = 64


def samples(n=18, seed=0):
    return np.round(np.random.default_rng(seed).normal(size=(n, 4)), 2)


def _models():
    X = samples()
    score = X[:, 0]
    order = np.argsort(np.argsort(score))
    two, three = np.where(order > 8, 1, -1), order * 3 // 18
    kernel = [
        dualgap.SVC().fit(X, two),
        dualgap.SVC(kernel="poly", degree=2).fit(sp.csr_matrix(X), three),
        dualgap.NuSVC(nu=0.3).fit(X, three),
        dualgap.SVR(kernel="linear").fit(X, score),
        dualgap.NuSVR().fit(sp.csr_matrix(X), score),
        dualgap.OneClassSVM(kernel="sigmoid").fit(X),
        dualgap.SVC(kernel="precomputed").fit(X @ X.T, two),
    ]
    kernel[0].probA_, kernel[0].probB_ = np.array([-1.5]), np.array([0.25])
    linear = [
        dualgap.LinearSVC().fit(X, two),
        dualgap.LinearSVC(multi_class="crammer_singer").fit(X, three),
        dualgap.LinearSVR(fit_intercept=False).fit(X, score),
        dualgap.LinearOneClassSVM().fit(X + 2.0),
    ]
    more = [
        dualgap.SVDD(kernel="laplacian").fit(X),
        dualgap.SVC(approximation="sgma", rank=5).fit(X, three.astype(str)),
        dualgap.LinearSVDD().fit(X),
    ]
    return kernel, linear, more


def _data():
    X = samples()
    y = np.where(X[:, 0] > 0, 1, -1)
    lines = [
        " ".join([str(label), *(f"{column}:{value}" for column, value in enumerate(row, 1) if value)])
        for label, row in zip(y, X, strict=True)
    ]
    text = ("\n".join(lines) + "\n# the end\n").encode()
    table = (
        b"a,b,c,d,label\n"
        + "\n".join(",".join(map(str, [*row, label])) for row, label in zip(X, y, strict=True)).encode()
    )
    quoted = b'name;"a;b";class\n"1.5";2.5;"x"\n3;4.5;"y"\n'
    tabs = "\n".join("\t".join(map(str, row)) for row in X).encode()

    def archive(save, **arrays):
        stream = io.BytesIO()
        save(stream, **arrays)
        return stream.getvalue()

    rows = sp.csr_matrix(X)
    parts = {"format": b"csr", "shape": rows.shape, "data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    archives = [
        archive(np.savez, X=X, y=y),
        archive(np.savez_compressed, X=X.astype(np.float32), y=y.astype(str)),
        archive(np.savez, y=y, **parts),
        archive(np.savez_compressed, y=y, **parts),
        archive(np.savez, X=X, y=y.astype(bytes)),
    ]
    libsvm = [text, gzip.compress(text, mtime=0), bz2.compress(text), lzma.compress(text)]
    csv = [table, quoted, tabs, gzip.compress(table, mtime=0)]
    return {"libsvm data": libsvm, "csv data": csv, "npz data": archives, "any data": [*libsvm, *csv, *archives]}


def seeds():
    """Good files of every kind."""
    found = _data()
    kernel, linear, more = _models()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, "model")

        def written(write, model):
            write(model, path)
            return path.read_bytes()

        found["native"] = [written(dualgap.save, model) for model in (*kernel, *linear, *more)]
        found["libsvm model"] = [written(write_libsvm_model, model) for model in kernel]
        found["liblinear model"] = [written(write_liblinear_model, model) for model in linear]
    return found


def _flip(data, chance, others):
    for _ in range(chance.choice((1, 1, 2, 8))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _overwrite(data, chance, others):
    for _ in range(chance.choice((1, 1, 4))):
        data[chance.randrange(len(data))] = chance.choice(b'0123456789-+.eE:, \n\t"#[]{}\x00\xff')


def _insert(data, chance, others):
    at = chance.randrange(len(data) + 1)
    data[at:at] = chance.choice(TOKENS)


def _delete(data, chance, others):
    at = chance.randrange(len(data))
    del data[at : at + chance.choice((1, 1, 2, 8, 64))]


def _truncate(data, chance, others):
    del data[chance.randrange(len(data)) :]


def _repeat(data, chance, others):
    at, size = chance.randrange(len(data)), chance.choice((1, 8, 64))
    data[at:at] = data[at : at + size] * chance.choice((1, 1, 3))


def _replace_number(data, chance, others):
    """A run of digits becomes another number."""
    at = chance.randrange(len(data))
    while at < len(data) and not 48 <= data[at] <= 57:
        at += 1
    end = at
    while end < len(data) and 48 <= data[end] <= 57:
        end += 1
    data[at:end] = chance.choice(TOKENS)


def _splice(data, chance, others):
    """The beginning of one file and the end of another."""
    other = chance.choice(others)
    data[chance.randrange(len(data)) :] = other[chance.randrange(len(other)) :]


def _extreme(data, chance, others):
    """Eight bytes that are an extreme number to whoever reads them as one."""
    at = chance.randrange(len(data))
    values = (b"\xff" * 8, b"\x00" * 8, b"\xff" * 7 + b"\x7f", b"\x00" * 7 + b"\x80", b"\x00" * 6 + b"\xf0\x7f")
    data[at : at + 8] = chance.choice(values)


MUTATIONS = (_flip, _overwrite, _insert, _delete, _truncate, _repeat, _replace_number, _splice, _extreme)


def mutated(content, chance, others):
    """A spoilt copy of a file."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if data:
            chance.choice(MUTATIONS)(data, chance, others)
    return bytes(data)


def attempt(name, path, *, predict=False):
    """Read the file: True where it is accepted, False where it is refused as documented; anything else is raised.

    With `predict` a model that is accepted must be able to predict.
    """
    read, refusal, _ = READERS[name]
    try:
        found = read(path)
    except refusal as error:
        message = str(error)
        assert "\n" not in message, f"a message of several lines: {message!r}"
        assert len(message) < len(str(path)) + 500, f"a message of {len(message)} letters"
        return False
    if predict and hasattr(found, "predict"):
        width = found.n_features_in_
        if 0 < width <= WIDEST:
            with np.errstate(all="ignore"):
                assert len(found.predict(np.ones((3, width)))) == 3
    return True
