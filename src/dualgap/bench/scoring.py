"""The judge of the comparison: the relative duality gap of anybody's dual variables, in float64 from the samples.

The variables of a solution are read off its coefficients, clipped to the box by `dualgap.certify`, and the equality
constraints repaired where they are off by more than `dualgap.constraints.FEASIBLE`: what is missing is spread over the
variables strictly inside the box, in proportion to the room each has. Solvers in single precision need this, because a
point off its constraints has no dual objective. How much was missing is reported beside the gap.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from dualgap.certificate import certify, combine
from dualgap.constraints import FEASIBLE, infeasibility
from dualgap.formulations import FORMULATIONS, build
from dualgap.kernels.functions import Kernel
from dualgap.kernels.gram import make_gram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.bench.libraries import Solution
    from dualgap.bench.problems import Machine
    from dualgap.kernels.gram import Gram
    from dualgap.problem import DualQP
    from dualgap.result import Certificate

# Formulations whose models are published up to a factor: nu-SVC's divided by its margin, svdd's as one-class.
_UP_TO_A_FACTOR = ("nu_svc", "svdd")


@dataclass(frozen=True)
class Score:
    """What the harness says of a solution.

    Attributes
    ----------
    gap : float
        Relative duality gap; of several pairs that of their sum.
    support : int
        Samples with a coefficient.
    entries : int
        Kernel values between samples and support vectors, summed over the pairs.
    repaired : float
        What was missing of the constraints before they were repaired (relative, see `constraints.infeasibility`).
    certified : float or None
        The solution's own duality gap, where `gap` is something else and there is one.
    """

    gap: float
    support: int = 0
    entries: int = 0
    repaired: float = 0.0
    certified: float | None = None


class Judge:
    """Scores solutions of one problem; a solution seen before is not computed again.

    Parameters
    ----------
    X : ndarray of float64, shape (n, d)
        The samples; those given to a library in single precision as they were rounded.
    y : ndarray or None
        Labels or targets.
    machine : Machine
        What was to be solved.
    """

    def __init__(self, X: NDArray[np.float64], y: NDArray[np.float64] | None, machine: Machine) -> None:
        self.y, self.machine = y, machine
        # "cached" so that no matrix is computed here: certificates need products only, tile by tile.
        self.gram: Gram = make_gram(X, Kernel("rbf", gamma=machine.gamma), kind="cached")
        self._seen: dict[bytes, Score] = {}

    def score(self, solution: Solution) -> Score:
        """The gap of a solution."""
        key = hashlib.sha256(solution.support.tobytes() + solution.coefficients.tobytes()).digest()
        if key not in self._seen:
            self._seen[key] = self._compute(solution)
        return self._seen[key]

    def _compute(self, solution: Solution) -> Score:
        certificates: list[Certificate] = []
        entries = 0
        for problem, a in self._tasks(solution):
            certificates.append(judged(problem, a))
            entries += np.unique(problem.index).size * int(np.count_nonzero(problem.on_points(a)))
        whole = combine(certificates)
        return Score(whole.relative_gap, int(solution.support.size), entries, whole.infeasibility)

    def _tasks(self, solution: Solution) -> list[tuple[DualQP, NDArray[np.float64]]]:
        """The quadratic programs, one a pair of classes, and the point of each."""
        m = self.machine
        parameters = {name: getattr(m, name) for name in FORMULATIONS[m.row].parameters}
        if solution.classes is None:
            problem = build(m.row, self.gram, self.y, **parameters)
            return [(problem, _scaled(problem, _variables(problem, _spread(solution, 0, self.gram.n))))]
        assert self.y is not None
        tasks = []
        for i, j in combinations(range(len(solution.classes)), 2):
            first, second = self.y == solution.classes[i], self.y == solution.classes[j]
            target, members = np.where(first, 1.0, -1.0), first | second
            problem = build(m.row, self.gram, target, sample_weight=members.astype(np.float64), **parameters)
            # LIBSVM's layout: a sample of the first class has its variable of this pair in row j - 1, one of the
            # second class in row i.
            signed = np.where(first, _spread(solution, j - 1, self.gram.n), _spread(solution, i, self.gram.n))
            a = _variables(problem, signed)
            # Which class of a pair is the positive one is a convention; variables are not negative on the whole.
            tasks.append((problem, _scaled(problem, a if a.sum() >= 0.0 else -a)))
        return tasks


def judged(problem: DualQP, a: NDArray[np.float64]) -> Certificate:
    """The certificate of a point, its constraints repaired where they have to be; the infeasibility is that before."""
    missing = infeasibility(problem, a)
    if missing > FEASIBLE:
        a = repaired(problem, a)
    certificate, _ = certify(problem, a)
    if certificate.infeasibility > FEASIBLE:
        raise ValueError(f"the dual variables are off their constraints by {certificate.infeasibility:.1e}")
    return replace(certificate, infeasibility=missing)


def repaired(problem: DualQP, a: NDArray[np.float64]) -> NDArray[np.float64]:
    """The point in the box with what is missing of ``F'a = e`` spread over variables that have room."""
    a = np.clip(a, problem.lo, problem.hi)
    groups = problem.groups
    assert groups is not None  # of all rows of the table that have a peer
    for g in range(groups.rhs.shape[0]):
        members = np.flatnonzero(groups.group == g)
        scale = groups.scale[members]
        missing = float(groups.rhs[g] - scale @ a[members])
        towards = np.where(missing * scale > 0.0, problem.hi[members], problem.lo[members])
        room = np.abs(scale * (towards - a[members]))
        inside = (a[members] > problem.lo[members]) & (a[members] < problem.hi[members])
        # Variables at a bound are left there, unless those inside have not enough room.
        usable = np.where(inside, room, 0.0) if room[inside].sum() >= abs(missing) else room
        if usable.sum() > 0.0:
            step = min(abs(missing) / usable.sum(), 1.0) * usable / np.abs(scale)
            a[members] += np.sign(missing * scale) * step
    return np.clip(a, problem.lo, problem.hi)


def _spread(solution: Solution, row: int, n: int) -> NDArray[np.float64]:
    """One row of the coefficients over all samples."""
    full = np.zeros(n)
    full[solution.support] = solution.coefficients[row]
    return full


def _variables(problem: DualQP, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """The variables behind signed coefficients: of the two a sample of regression has, one is zero."""
    signed = problem.sign * coefficients[problem.index]
    return np.maximum(signed, 0.0) if problem.n > np.unique(problem.index).size else signed


def _scaled(problem: DualQP, a: NDArray[np.float64]) -> NDArray[np.float64]:
    """Undo a factor that the constraints determine."""
    total = float(a.sum())
    if problem.formulation not in _UP_TO_A_FACTOR or total <= 0.0:
        return a
    # The column of ones is the last of both formulations.
    return a * (float(problem.e[-1]) / total)
