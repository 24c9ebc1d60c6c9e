"""The examples in the docstrings of what writes and reads models."""

import doctest
import importlib

import pytest

MODULES = (
    "dualgap.formats.model",
    "dualgap.atomic",
    "dualgap.formats.libsvm_model",
    "dualgap.formats.liblinear_model",
    "dualgap.estimators.sklearn_models",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
