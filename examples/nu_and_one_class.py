"""The meaning of nu: a bound on errors from above and on support vectors from below."""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from dualgap import SVDD, NuSVC, OneClassSVM

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)

print("NuSVC: margin errors <= nu <= support vectors")
print("   nu   margin errors   support vectors   relative gap")
for nu in (0.1, 0.2, 0.4):
    model = NuSVC(nu=nu, gap_tol=1e-5).fit(X, y)
    margin = np.where(y == 1, 1, -1) * model.decision_function(X)
    # Points on the margin are support vectors and no errors; the gap leaves them a little off it.
    errors, support = np.mean(margin < 1 - 1e-2), model.n_support_.sum() / len(y)
    print(f"{nu:5.2f}{errors:13.3f}{support:17.3f}{model.certificate_.relative_gap:17.1e}")

print()
print("Outliers among the benign samples: with k(x, x) = 1, OneClassSVM and SVDD are the same model")
benign = X[y == 1]
print("   nu   one-class    SVDD   disagree   radius   relative gaps")
for nu in (0.05, 0.1, 0.2):
    one_class = OneClassSVM(nu=nu, gamma=0.03, gap_tol=1e-7).fit(benign)
    ball = SVDD(C=1 / (nu * len(benign)), gamma=0.03, gap_tol=1e-7).fit(benign)
    inside, distance = one_class.decision_function(benign), ball.decision_function(benign)
    # Points on the boundary have a decision value of zero but for the gap, and either sign.
    disagree = np.mean((np.sign(inside) != np.sign(distance)) & (np.abs(distance) > 1e-4))
    gaps = f"{one_class.certificate_.relative_gap:.1e}, {ball.certificate_.relative_gap:.1e}"
    print(
        f"{nu:5.2f}{np.mean(inside < 0):12.3f}{np.mean(distance < 0):8.3f}{disagree:11.3f}{ball.radius_:9.3f}   {gaps}"
    )
