"""A run on one HTML page that needs nothing but a browser to be read.

The package itself can be called: ``dualgap.report(model)`` is `report`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

# Public names and where they live. They are imported at first use: the command line needs only the wording.
_HOME = {
    "Axis": "scales",
    "Report": "making",
    "ReportData": "data",
    "Series": "chart",
    "line_chart": "chart",
    "render_page": "page",
    "report": "making",
    "write_page": "page",
}

__all__ = ["Axis", "Report", "ReportData", "Series", "line_chart", "render_page", "report", "write_page"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


class _Callable(ModuleType):
    """A package that can be called: importing any of its modules binds `dualgap.report` to the package."""

    def __call__(self, *arguments: Any, **options: Any) -> Report:
        """See `report`."""
        return __getattr__("report")(*arguments, **options)


sys.modules[__name__].__class__ = _Callable

if TYPE_CHECKING:
    from dualgap.report.chart import Series, line_chart
    from dualgap.report.data import ReportData
    from dualgap.report.making import Report, report
    from dualgap.report.page import render_page, write_page
    from dualgap.report.scales import Axis
