"""The script behind the table of time limits: a line a solver, measured in a process of its own."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "limits.py"


@pytest.fixture(scope="module")
def limits():
    spec = importlib.util.spec_from_file_location("limits", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_exception_is_a_solver(limits):
    assert set(limits.TAKES) <= set(limits.SOLVERS)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_line_says_what_came_after_the_limit(limits):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    y = np.where(rng.random(3000) < 0.3, -1.0, 1.0) * np.sign(X[:, 0] + X[:, 1] ** 2 - 0.5)
    name, problem, late, later, ended = (cell.strip() for cell in limits.row_of("smo", X, y, 0.3).strip("|").split("|"))
    assert (name, problem) == ("`smo`", "c_svc, rbf")
    assert 0.0 <= float(late) < 1.0
    assert 0.0 <= float(later) < 1.0
    status, gap = ended.split(", ")
    assert status == "TIME_LIMIT"
    assert 0.0 < float(gap) < 10.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_what_dies_is_told_as_such(limits):
    (ended, gap), late = limits.answer_of(lambda: os._exit(3), 0.05, interrupt=False)
    assert ended == "exit 3"
    assert np.isnan(gap)
    assert late == pytest.approx(0.0, abs=0.5)
