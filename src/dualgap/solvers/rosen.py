"""Rosen's gradient projection."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dualgap.certificate import exact_gradient, judge
from dualgap.constraints import feasible_start
from dualgap.problem import check_objective
from dualgap.result import Outcome, Snapshot, Status
from dualgap.solvers._rosen_face import Face
from dualgap.solvers._rosen_projection import constraints
from dualgap.solvers._rosen_rows import Rows
from dualgap.solvers._rosen_step import cone, spread

SHARE = 0.1
@dataclass(frozen=True)
class Options:
    tol: float = 1e-3
    max_iter: int = -1
    variant: str = "improved"

def supports(problem, options=None):
    return None

def solve(problem, options, callback, start=None):
    a = feasible_start(problem) if start is None else np.clip(start, problem.lo, problem.hi)
    return _Run(problem, options, callback, a).improved()

class _Run:
    def __init__(self, problem, options, callback, a):
        self.problem, self.options, self.callback = problem, options, callback
        self.constraints = constraints(problem)
        if problem.groups is None:
            a = self.constraints.nearest(a, problem.lo, problem.hi, problem.e)
        self.a = a
        self.gradient = exact_gradient(problem, a) if np.any(a) else problem.f0.copy()
        self.objective = 0.5 * float(a @ (self.gradient + problem.f0))
        self.rows = Rows(problem)
        self.curvature = float((problem.gram.diag()[problem.index] + problem.ridge).max())
        self.iterations = 0
        self.eta = None

    def violation(self):
        p = self.problem
        if p.groups is None:
            c, self.eta = judge(p, self.a, self.gradient, self.eta)
            return c.kkt_violation
        g = p.groups
        return float(spread(self.a, self.gradient, p.lo, p.hi, g.scale, g.group, g.rhs.size))

    def tell(self, violation, complete=True):
        hits, misses = self.rows.hits_and_misses
        return self.callback(Snapshot(self.iterations, self.a, self.gradient if complete else None, self.objective, violation, self.rows.evaluations, hits, misses))

    def improved(self):
        p, o = self.problem, self.options
        below, above = np.empty(p.n), np.empty(p.n)
        while True:
            v = self.violation()
            if self.tell(v):
                return self.outcome(Status.STOPPED)
            if v <= o.tol:
                return self.outcome(Status.CONVERGED)
            cone(self.a, p.lo, p.hi, below, above)
            d = self.constraints.nearest(-self.gradient, below, above)
            free = (below < 0) & (above > 0)
            W = np.flatnonzero(free | (d != 0))
            H = self.rows.matrix(W)
            face = Face(lambda q: H @ q, self.curvature, self.a[W], self.gradient[W], p.lo[W], p.hi[W], self.constraints.take(W))
            goal = max(SHARE * np.abs(d).max(), 0.45 * o.tol)
            face.descend(goal, 10000)
            self.iterations += face.steps
            self.objective -= face.decrease
            delta = face.x - self.a[W]
            moved = np.flatnonzero(delta)
            if moved.size==0:
                return self.outcome(Status.STALLED)
            self.gradient += self.rows.product(W[moved], delta[moved])
            self.a[W] = face.x
            check_objective(self.objective)

    def outcome(self, status):
        return Outcome(self.a, self.iterations, status)
