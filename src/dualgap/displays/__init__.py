"""Displays in scikit-learn's manner: ``Display.from_estimator(...)`` draws with matplotlib (the extra `report`)."""

from dualgap.displays.convergence import ConvergenceDisplay
from dualgap.displays.margin import MarginDisplay
from dualgap.displays.path import PathDisplay
from dualgap.displays.search import SearchDisplay

__all__ = ["ConvergenceDisplay", "MarginDisplay", "PathDisplay", "SearchDisplay"]
