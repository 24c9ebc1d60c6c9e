"""A problem of your own: a classifier with one bias per site, written down as a DualQP.

Two sites measure the same two features with different offsets. The decision function is
f(x, site) = <w, phi(x)> + b_site: the kernel part is shared, the biases are not. The dual is that of a C-SVC
with one equality constraint a site: the y_i a_i of its samples sum to 0. The multipliers are the biases.
"""

import numpy as np

import dualgap

rng = np.random.default_rng(0)
n = 400
X = rng.normal(size=(n, 2))
site = rng.integers(0, 2, size=n)
offset = np.where(site == 0, 0.8, -0.8)
y = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 + offset + 0.2 * rng.normal(size=n) > 0.5, 1.0, -1.0)

gram = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.5))
problem = dualgap.DualQP(
    gram=gram,
    index=np.arange(n),  # variable i belongs to point i
    sign=y,  # H_ij = y_i y_j k(x_i, x_j)
    ridge=0.0,
    f0=-1.0,
    lo=0.0,
    hi=1.0,  # C
    F=np.column_stack([y * (site == 0), y * (site == 1)]),
    e=np.zeros(2),
    columns=("bias of site 0", "bias of site 1"),
)
result = dualgap.solve(problem, gap_tol=1e-8)
print(result.status.message)
print(result.certificate)
for name, value in zip(problem.columns, result.eta, strict=True):
    print(f"{name}: {value:+.6f}")

# The same model from the table: no bias, and the indicators of the sites as free functions.
indicators = np.column_stack([site == 0, site == 1]).astype(float)
by_table = dualgap.build("c_svc", gram, y, C=1.0, bias=False, parametric=indicators)
again = dualgap.solve(by_table, gap_tol=1e-8)
print(f"from the table: {again.certificate}")

# One bias for both sites is a special case of two, so its optimum cannot be lower.
shared = dualgap.solve(dualgap.build("c_svc", gram, y, C=1.0), gap_tol=1e-8)
one, two = shared.certificate.primal, result.certificate.primal
print(f"objective with one bias {one:.4f}, with one a site {two:.4f}")
