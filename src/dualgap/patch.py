"""Put this package's support vector machines in the place of scikit-learn's, for programs that are not to be changed.

``dualgap.patch_sklearn()`` before the imports of a program, or ``python -m dualgap.patch script.py arguments`` instead
of a change to it. What happens:

- The attributes of `sklearn.svm` become the classes of this package: ``from sklearn.svm import SVC`` and
  ``sklearn.svm.SVC`` are then `dualgap.SVC`, and so is the class that ``isinstance`` is asked about.
- Modules that have imported one of scikit-learn's classes already (``from sklearn.svm import SVC`` at their top) have
  that name replaced as well, where it still means scikit-learn's class. Modules of scikit-learn itself are left alone.
- What is out of reach: names under another alias than the class's own, classes derived from scikit-learn's, instances
  that exist, and references in containers, defaults and closures.
- Pickles are not affected: a machine of scikit-learn is stored under `sklearn.svm._classes`, which is not touched, and
  one of this package under its own name.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType

# The classes that both packages have.
NAMES = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "LinearSVC", "LinearSVR")

# What was replaced: module and name, with what stood there.
_replaced: list[tuple[ModuleType, str, type]] = []


def patch_sklearn(names: Iterable[str] | None = None) -> None:
    """Put the classes of this package in the place of scikit-learn's.

    Calling it twice is calling it once.

    Parameters
    ----------
    names : iterable of str or None
        Which of "SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "LinearSVC" and "LinearSVR"; None means all.

    Examples
    --------
    >>> import dualgap
    >>> dualgap.patch_sklearn()
    >>> from sklearn.svm import SVC
    >>> SVC is dualgap.SVC
    True
    >>> dualgap.unpatch_sklearn()
    """
    import sklearn.svm

    from dualgap import estimators

    for name in _checked(names):
        ours, theirs = getattr(estimators, name), getattr(sklearn.svm, name)
        if theirs is ours:
            continue
        for module in [sklearn.svm, *_importers(name, theirs)]:
            _replaced.append((module, name, theirs))
            setattr(module, name, ours)


def unpatch_sklearn() -> None:
    """Undo `patch_sklearn`.

    What was replaced is put back, where it still means a class of this package. What a module has imported meanwhile
    stays as it is: nobody can tell it from an import of this package.
    """
    from dualgap import estimators

    while _replaced:
        module, name, theirs = _replaced.pop()
        if vars(module).get(name) is getattr(estimators, name):
            setattr(module, name, theirs)


def _checked(names: Iterable[str] | None) -> tuple[str, ...]:
    if names is None:
        return NAMES
    chosen = (names,) if isinstance(names, str) else tuple(names)
    for name in chosen:
        if name not in NAMES:
            raise ValueError(f"There is no {name!r} to put in place of scikit-learn's; choose from {', '.join(NAMES)}.")
    return chosen


def _importers(name: str, cls: type) -> Iterator[ModuleType]:
    """Modules outside of both packages whose global of this name is the class."""
    for title, module in list(sys.modules.items()):
        if title.partition(".")[0] in ("sklearn", "dualgap"):
            continue
        # What a module holds is looked up, not asked for: asking makes lazy modules import.
        try:
            held = vars(module).get(name)
        except TypeError:  # an object that stands in for a module need not have a dictionary
            continue
        if held is cls:
            yield module


def main(arguments: list[str] | None = None) -> None:
    """Run a script with the classes of this package in place: ``python -m dualgap.patch script.py arguments``."""
    import runpy
    from pathlib import Path

    arguments = sys.argv[1:] if arguments is None else arguments
    module = arguments[:1] == ["-m"]
    rest = arguments[1:] if module else arguments
    if not rest or rest[0] in ("-h", "--help"):
        print("usage: python -m dualgap.patch [-m module | script.py] [arguments ...]")
        raise SystemExit(0 if rest else 2)
    patch_sklearn()
    sys.argv = rest
    if module:
        sys.path.insert(0, "")
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    sys.path.insert(0, str(Path(rest[0]).resolve().parent))  # as for a script that Python runs itself
    runpy.run_path(rest[0], run_name="__main__")


def _run() -> Any:
    # This file is __main__ here: what it has replaced is kept by the module of its name, where scripts look for it.
    from dualgap import patch

    return patch.main()


if __name__ == "__main__":
    _run()
