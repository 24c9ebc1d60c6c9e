"""Imports point one way: read from the source, so that a lazy import inside a function counts as well."""

import ast
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import dualgap

ROOT = Path(dualgap.__file__).parent

# A module imports from its own layer and those before it.
LAYERS = (
    ("_vector_passes", "atomic", "tensors", "result", "constraints", "problem", "multipliers", "feasibility"),
    ("smooth_abs", "losses", "regularisers", "composite"),
    ("kernels",),
    ("operators", "line_search"),
    ("formulations", "screening", "certificate", "approximation", "box_descent", "primal", "composite_certificate"),
    ("solvers",),
    (
        "course",
        "interrupts",
        "checkpoint",
        "fingerprint",
        "handover",
        "pace",
        "_finish_face",
        "_run_keeper",
        "run",
        "finish",
        "minimization",
        "smoothing",
    ),
    (
        "_crammer_singer_newton",
        "_l1_columns",
        "_l1_descent",
        "_l1_factor",
        "_l1_lp",
        "_l1_newton",
        "_l1_search",
        "crammer_singer",
        "l1svm",
        "out_of_core",
    ),
    ("estimators", "path"),
    ("formats", "datasets", "report", "displays", "bench", "reproduce", "distributed", "patch"),
    ("cli", "__main__"),
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
OPTIONAL = ("matplotlib", "dask", "distributed", "torch", "onnx", "onnxruntime", "clarabel")


@dataclass(frozen=True)
class Import:
    """A module that is imported, and whether that happens as soon as the importing module is."""

    name: str
    line: int
    at_once: bool


def module_name(path, root=ROOT):
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(test):
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def imports_of(source, module="dualgap", package=True):
    """All imports of a module, but for those that only a type checker sees."""
    found = []

    def visit(nodes, at_once):
        for node in nodes:
            if isinstance(node, ast.Import):
                found.extend(Import(alias.name, node.lineno, at_once) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    parents = module.split(".")
                    parents = parents[: len(parents) - node.level + package]
                    base = ".".join([*parents, base] if base else parents)
                # `from package import name` may mean a module: the longer name is right for both uses below.
                found.extend(Import(f"{base}.{alias.name}", node.lineno, at_once) for alias in node.names)
            elif isinstance(node, ast.If) and is_type_checking(node.test):
                visit(node.orelse, at_once)
            else:
                inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                visit(ast.iter_child_nodes(node), at_once and not inside)

    visit(ast.parse(source).body, True)
    return found


def part_of(name):
    """The part of dualgap a name belongs to: "kernels" for "dualgap.kernels.gram.make_gram"; "" for the root's own."""
    parts = name.split(".")
    if len(parts) < 2:
        return ""
    if parts[1] in dualgap._HOME:
        return dualgap._HOME[parts[1]].split(".")[0]
    return parts[1] if (ROOT / parts[1]).is_dir() or (ROOT / f"{parts[1]}.py").exists() else ""


def within(name, *packages):
    return any(name == package or name.startswith(f"{package}.") for package in packages)


FILES = sorted(ROOT.rglob("*.py"))
MODULES = {
    module_name(path): imports_of(path.read_text(encoding="utf-8"), module_name(path), path.stem == "__init__")
    for path in FILES
}
SOLVERS = [path.stem for path in (ROOT / "solvers").glob("*.py") if not path.stem.startswith("_")]


# Numerical methods on plain arrays that more than one solver uses; they import no solver.
SHARED = {"_augmented", "_interior", "_pair_steps", "_subproblem", "_violation", "_working_set"}


def owner(stem):
    """The solver a module of `solvers` belongs to: itself, or for `_name_*` the solver `name`."""
    if not stem.startswith("_"):
        return stem
    owners = [name for name in SOLVERS if stem.startswith(f"_{name}_")]
    return max(owners, key=len, default=None)


each_module = pytest.mark.parametrize("module", MODULES)


def test_the_reader_sees_every_import():
    source = """
from __future__ import annotations
import typing
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import torch
    from dualgap.run import solve
else:
    import json
if typing.TYPE_CHECKING:
    import dask
try:
    import onnx
except ImportError:
    onnx = None
class A:
    import bisect
    def method(self):
        with open("x"):
            import matplotlib.pyplot as plt
from . import sibling
from .sibling import thing
from ..run import solve
"""
    found = {i.name: i.at_once for i in imports_of(source, "dualgap.solvers.smo", package=False)}
    assert found == {
        "__future__.annotations": True,
        "typing": True,
        "typing.TYPE_CHECKING": True,
        "json": True,
        "onnx": True,
        "bisect": True,
        "matplotlib.pyplot": False,
        "dualgap.solvers.sibling": True,
        "dualgap.solvers.sibling.thing": True,
        "dualgap.run.solve": True,
    }
    assert imports_of("from .smo import x", "dualgap.solvers", package=True)[0].name == "dualgap.solvers.smo.x"


def test_parts_are_found():
    assert part_of("dualgap.kernels.gram.make_gram") == "kernels"
    assert part_of("dualgap.make_gram") == "kernels"
    assert part_of("dualgap.run") == "run"
    assert part_of("dualgap.__version__") == part_of("dualgap") == ""
    assert len(MODULES) > 30
    assert {"smo"} <= set(SOLVERS)


@each_module
def test_layers(module):
    part = part_of(module)
    if part == "":
        assert module == "dualgap"
        # The root imports everything at first use only.
        assert not [i for i in MODULES[module] if within(i.name, "dualgap")]
        return
    assert part in LEVEL, f"{part} is new: give it a place in LAYERS"
    wrong = [
        f"{module}:{i.line} imports {i.name}"
        for i in MODULES[module]
        if within(i.name, "dualgap") and part_of(i.name) and LEVEL[part_of(i.name)] > LEVEL[part]
    ]
    assert not wrong


@each_module
def test_optional_packages_wait(module):
    eager = [f"{module}:{i.line} imports {i.name}" for i in MODULES[module] if i.at_once and within(i.name, *OPTIONAL)]
    assert not eager


@each_module
def test_sklearn_waits_outside_the_estimators(module):
    if part_of(module) == "estimators":
        return
    eager = [f"{module}:{i.line} imports {i.name}" for i in MODULES[module] if i.at_once and within(i.name, "sklearn")]
    assert not eager


@pytest.mark.parametrize("stem", [path.stem for path in (ROOT / "solvers").glob("*.py") if path.stem != "__init__"])
def test_solvers_stand_alone(stem):
    mine = owner(stem)
    assert mine in SOLVERS or stem in SHARED, f"_{stem} belongs to no solver: call it _name_{stem.strip('_')}"
    wrong = []
    for i in MODULES[f"dualgap.solvers.{stem}"]:
        if within(i.name, "dualgap.run", "dualgap.solve", "sklearn"):
            wrong.append(f"{stem}:{i.line} imports {i.name}")
        elif within(i.name, "dualgap.solvers"):
            other = i.name.split(".")[2] if i.name.count(".") > 1 else ""
            helper = other in SHARED or (mine is not None and other.startswith("_") and owner(other) == mine)
            if not helper and other != stem:
                wrong.append(f"{stem}:{i.line} imports {i.name}")
    assert not wrong


def test_import_is_light():
    """`import dualgap` costs neither scikit-learn's second nor Numba's; both come at first use."""
    script = """
import json, sys
import dualgap
first = [name for name in ("sklearn", "numba", "scipy", "numpy", "rich", "typer") if name in sys.modules]
dualgap.Status, dualgap.DualQP, dualgap.Certificate
second = [name for name in ("sklearn", "numba") if name in sys.modules]
dualgap.SVC
third = [name for name in ("sklearn", "numba", "matplotlib", "torch", "dask") if name in sys.modules]
print(json.dumps([first, second, third]))
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout
    first, second, third = json.loads(out)
    assert first == []
    assert second == []
    assert third == ["sklearn", "numba"]


@pytest.mark.parametrize("name", dualgap.__all__)
def test_public_names_exist(name):
    assert getattr(dualgap, name) is not None
    assert name in dir(dualgap)


def test_type_checkers_see_the_public_names():
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If) and is_type_checking(node.test))
    homes = {alias.name: node.module for node in block.body for alias in node.names}
    lazy = {name: f"dualgap.{home}" for name, home in dualgap._HOME.items()}
    # `report` is a package that can be called; type checkers see the function that it calls.
    assert homes == lazy | dict.fromkeys(dualgap._MODULES, "dualgap") | {"report": "dualgap.report"}
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = dualgap.nonsense
