"""Compile what the tests use most, so that parallel workers find it in Numba's cache (see `make test`)."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import dualgap
from dualgap.l1svm import solve_l1_svm

VARIANTS = ({}, {"variant": "keerthi1"}, {"variant": "keerthi2", "function_cache": "free"})


def main() -> None:
    rng = np.random.default_rng(0)
    y = np.where(np.arange(60) % 2 == 0, 1.0, -1.0)
    X = np.abs(rng.normal(size=(60, 3)) + y[:, None])
    for dtype in (np.float64, np.float32):
        points = X.astype(dtype)
        for cache in ("row", "element"):
            kernel = dualgap.Kernel("rbf", gamma=0.5)
            gram = dualgap.make_gram(points, kernel, kind="cached", cache=cache)
            problem = dualgap.build("c_svc", gram, y)
            for options in VARIANTS:
                dualgap.solve(problem, "smo", tol=0.1, warn=False, **options)
            for variant in ("improved", "paper"):
                dualgap.solve(problem, "rosen", tol=0.1, warn=False, variant=variant)
            for precision in ("single", "double"):
                dualgap.solve(problem, "block", tol=0.1, warn=False, precision=precision)
            for variant in ("improved", "paper"):
                dualgap.solve(problem, "mpd", tol=0.1, warn=False, variant=variant)
            dualgap.certify(problem, np.where(np.arange(60) < 50, 0.5, 0.0), screen=True)
            alone = dualgap.build("c_svc", gram, y, bias=False)
            for solver in ("adatron", "sor"):
                dualgap.solve(alone, solver, tol=0.1, warn=False)
        for matrix in (points, np.asfortranarray(points), sp.csr_matrix(points), sp.csc_matrix(points)):
            dualgap.minimize({"name": "logistic", "y": y}, matrix, "l2", bias=True)
        rows = sp.csr_matrix(points)
        for index in (np.int32, np.int64):
            rows.indices, rows.indptr = rows.indices.astype(index), rows.indptr.astype(index)
            gram = dualgap.factored_gram(rows)
            for name, row in (("dcd", "c_svc"), ("newton", "c_svc"), ("pegasos", "c_svc"), ("pcd", "squared_hinge")):
                problem = dualgap.build(row, gram, y, bias=False)
                dualgap.solve(problem, name, tol=0.1, max_iter=20, warn=False)
            few = sp.csr_matrix(np.where(rng.random((60, 90)) < 0.02, 1.0, 0.0))
            few.indices, few.indptr = few.indices.astype(index), few.indptr.astype(index)
            solve_l1_svm(few.astype(dtype), y, loss="squared_hinge")
        wide = rng.uniform(size=(60, 128)).astype(dtype)
        for matrix in (wide, np.ceil(9.0 * wide), np.ceil(999.0 * wide)):  # for the matrix unit, where there is one
            gram = dualgap.make_gram(matrix, dualgap.Kernel("rbf", gamma=0.1), kind="cached")
            dualgap.solve(dualgap.build("c_svc", gram, y), "block", tol=0.1, warn=False)
        for labels in (y, y.astype(int)):
            dualgap.SVC().fit(points, labels)
        # More than fits into a block, so that working sets are chosen; labels by chance, so that all of it takes part.
        many = rng.normal(size=(3000, 8)).astype(dtype)
        dualgap.SVC(C=100.0, gap_tol=0.01, n_jobs=1).fit(many, np.where(rng.random(3000) < 0.5, 1, 0))
        for name in ("laplacian", "chi2"):
            dualgap.make_gram(points, dualgap.Kernel(name, gamma=0.5))


if __name__ == "__main__":
    main()
