"""One model in five places: here, svm-predict, ONNX Runtime, scikit-learn and a fresh Python process agree."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import dump_svmlight_file

import dualgap
from dualgap.formats.libsvm_model import write_libsvm_model
from dualgap.formats.onnx import to_onnx

FRESH = """
import sys
import numpy as np
import dualgap
model, samples, out = sys.argv[1:]
np.save(out, dualgap.load(model).predict(np.load(samples)))
"""


def halves(folder, name, scale, most):
    """Samples to train on and samples to predict, features divided by `scale`."""
    data = dualgap.datasets.load(f"{folder}/{name}.svm.xz")
    X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
    X, y = X[:most] / scale, np.asarray(data.y)[:most]
    return X[::2], y[::2], X[1::2], y[1::2]


@pytest.mark.parametrize(
    ("name", "estimator", "scale", "most"),
    [
        ("heart_scale", dualgap.SVC(), 1.0, 270),
        ("letter", dualgap.SVC(C=10, gamma=0.05), 1.0, 3000),  # all 26 classes are among them
        ("abalone", dualgap.SVR(C=10, gamma=2.0), 1.0, 1500),
    ],
    ids=["heart_scale", "letter", "abalone"],
)
def test_a_model_predicts_the_same_everywhere(data_folder, tmp_path, name, estimator, scale, most):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    X, y, new, truth = halves(data_folder, name, scale, most)
    regression = isinstance(estimator, dualgap.SVR)
    model = estimator.fit(X, y if regression else y.astype(int))
    expected = model.predict(new)
    assert regression or len(model.classes_) == (26 if name == "letter" else 2)

    dualgap.save(model, tmp_path / "model.dualgap")
    np.save(tmp_path / "new.npy", new)
    arguments = [tmp_path / "model.dualgap", tmp_path / "new.npy", tmp_path / "fresh.npy"]
    subprocess.run([sys.executable, "-c", FRESH, *map(str, arguments)], check=True, timeout=120)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"])
    found = {
        "a fresh process": np.load(tmp_path / "fresh.npy"),
        "scikit-learn": model.to_sklearn().predict(new),
        "ONNX Runtime": session.run(["prediction" if regression else "label"], {"X": new})[0],
    }
    if shutil.which("svm-predict"):
        write_libsvm_model(model, tmp_path / "libsvm")
        dump_svmlight_file(new, truth, str(tmp_path / "new.svm"), zero_based=False)
        command = ["svm-predict", "-q", *(str(tmp_path / part) for part in ("new.svm", "libsvm", "predicted"))]
        subprocess.run(command, check=True, timeout=120)
        found["svm-predict"] = np.loadtxt(tmp_path / "predicted")
    for where, labels in found.items():
        if regression:
            assert_allclose(np.ravel(labels), expected, rtol=1e-5, atol=1e-8, err_msg=where)
        else:
            assert_array_equal(labels, expected, err_msg=where)
