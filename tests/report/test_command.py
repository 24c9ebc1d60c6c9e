"""``dualgap train --report``: which samples the page is about."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from dualgap.cli import app, summary


@pytest.fixture
def table(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2)).round(3)
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, 1, -1)
    path = tmp_path / "data.csv"
    path.write_text("a,b,kind\n" + "".join(f"{u},{v},{k}\n" for (u, v), k in zip(X, y, strict=True)))
    return path


def page(table, *options):
    target = table.with_name("page.html")
    result = CliRunner().invoke(app, ["train", str(table), "-q", "--report", str(target), *options])
    assert result.exit_code == 0, result.output
    return target.read_text(encoding="utf-8")


def test_all_training_samples_are_shown(table):
    text = page(table)
    assert "<h1>SVC on data.csv</h1>" in text
    assert "On the 60 training samples." in text
    for heading in ("Margins", "Boundary", "Scores", "Confusion matrix"):
        assert f"<h3>{heading}</h3>" in text
    assert "c_svc with C 1; kernel rbf with gamma" in text


def test_of_samples_that_are_not_scored_a_part_is_shown(table, monkeypatch):
    monkeypatch.setattr(summary, "_SHOWN", 20)
    assert "On 20 of the 60 training samples." in page(table, "--no-score")
    assert "On the 60 training samples." in page(table, "--score")


def test_a_ball_of_a_precomputed_kernel_has_a_page_without_samples(table):
    X = np.random.default_rng(0).normal(size=(20, 3))
    kernel = table.with_name("kernel.npz")
    np.savez(kernel, X=X @ X.T)
    options = ("--formulation", "svdd", "-k", "precomputed", "--no-score", "-C", "0.2")
    text = page(kernel, *options)
    assert "<h2>Samples</h2>" not in text
    assert "<h2>Progress</h2>" in text


def test_without_labels_there_are_decision_values(table):
    text = page(table, "--task", "outlier", "--label-column", "none")
    assert "<h3>Decision values</h3>" in text
    assert "fraction of outliers" in text
    assert "Confusion matrix" not in text
