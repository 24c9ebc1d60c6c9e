"""An independent solver for DualQP problems, written by nobody here: Clarabel."""

import clarabel
import numpy as np
import scipy.sparse as sp


def dense_hessian(problem):
    """H of a problem, from the exact products of its Gram matrix with unit vectors."""
    K = np.column_stack([problem.gram.exact(unit) for unit in np.eye(problem.gram.n)])
    H = problem.sign[:, None] * K[np.ix_(problem.index, problem.index)] * problem.sign[None, :]
    return 0.5 * (H + H.T) + np.diag(problem.ridge)


def clarabel_solution(problem):
    """The minimiser of ``1/2 a'Ha + f0'a`` on the box with F'a = e, and the multipliers of F'a = e.

    With H = B'B the program is given as ``min 1/2 |z|^2 + f0'a, z = Ba``: the Hessians of regression have half rank
    and Clarabel loses three digits on them as they stand.
    """
    n, k = problem.n, problem.k
    spectrum, vectors = np.linalg.eigh(dense_hessian(problem))
    kept = spectrum > 1e-15 * spectrum[-1]
    B = np.sqrt(spectrum[kept])[:, None] * vectors[:, kept].T
    r = B.shape[0]
    bounded = np.flatnonzero(np.isfinite(problem.hi))
    eye = sp.identity(n, format="csc")
    A = sp.bmat(
        [
            [sp.csc_matrix(problem.F.T), None] if k else [sp.csc_matrix((0, n)), None],
            [sp.csc_matrix(B), -sp.identity(r)],
            [-eye, sp.csc_matrix((n, r))],
            [eye[bounded], sp.csc_matrix((bounded.size, r))],
        ],
        format="csc",
    )
    b = np.concatenate([problem.e, np.zeros(r), -problem.lo, problem.hi[bounded]])
    cones = [clarabel.ZeroConeT(k + r), clarabel.NonnegativeConeT(n + bounded.size)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    settings.tol_ktratio = 1e-9
    P = sp.block_diag([sp.csc_matrix((n, n)), sp.identity(r)], format="csc")
    linear = np.concatenate([problem.f0, np.zeros(r)])
    solution = clarabel.DefaultSolver(P, linear, A, b, cones, settings).solve()
    return np.array(solution.x[:n]), np.array(solution.z[:k]), float(solution.obj_val), str(solution.status)
