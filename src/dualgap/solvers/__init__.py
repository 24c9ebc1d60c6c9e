"""The solvers, one algorithm a file.

Each module offers::

    Options                                  one flat frozen dataclass
    supports(problem, options) -> None, or the sentence saying why this solver cannot take it
    solve(problem, options, callback, start) -> Outcome

and reports to ``callback(snapshot) -> bool`` between bounded chunks of compiled work; True asks it to stop.
It may offer::

    sharper(options) -> Options or None      settings for a run that rounding has brought to a halt
    OWN_THREADS = True                       BLAS is kept to one thread, because it shares work among threads of its own

and its Options may have ``gap_tol``, the relative gap that whoever watches is waiting for.

SOLVERS take a `DualQP`. COMPOSITE_SOLVERS take a `Composite`, report `Progress` once an iteration and return a
`Descent`; their ``PRESETS``, where they have any, are settings with a name of their own (``sesop8``, ``cg_fast``).
"""

from types import ModuleType

from dualgap.solvers import (
    adatron,
    block,
    cg,
    chunking,
    dcd,
    decomposition,
    ipm,
    mpd,
    nesterov,
    newton,
    pcd,
    pegasos,
    rosen,
    sesop,
    smo,
    sor,
    tn,
)

SOLVERS: dict[str, ModuleType] = {
    "block": block,
    "smo": smo,
    "ipm": ipm,
    "rosen": rosen,
    "mpd": mpd,
    "adatron": adatron,
    "sor": sor,
    "decomposition": decomposition,
    "chunking": chunking,
    "dcd": dcd,
    "newton": newton,
    "pcd": pcd,
    "pegasos": pegasos,
}

COMPOSITE_SOLVERS: dict[str, ModuleType] = {"sesop": sesop, "cg": cg, "tn": tn, "nesterov": nesterov}
