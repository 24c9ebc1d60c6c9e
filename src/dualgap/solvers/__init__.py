"""The solvers, one algorithm a file.

Each module offers::

    Options                                  one flat frozen dataclass
    supports(problem, options) -> None, or the sentence saying why this solver cannot take it
    solve(problem, options, callback, start) -> Outcome

and reports to ``callback(snapshot) -> bool`` between bounded chunks of compiled work; True asks it to stop.
"""

from types import ModuleType

from dualgap.solvers import ipm, smo

SOLVERS: dict[str, ModuleType] = {"smo": smo, "ipm": ipm}
