"""Fit a classifier to a certified duality gap and read its certificate."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualgap import SVC

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

print("goal            relative gap   KKT violation   iterations   test accuracy")
for goal in ({"tol": 1e-3}, {"gap_tol": 1e-3}, {"gap_tol": 1e-6}, {"gap_tol": 1e-9}):
    model = make_pipeline(StandardScaler(), SVC(C=10, **goal)).fit(X_train, y_train)
    svc = model[-1]
    proof = svc.certificate_
    ((name, value),) = goal.items()
    print(
        f"{name:<7} = {value:<6g}{proof.relative_gap:12.1e}{proof.kkt_violation:16.1e}"
        f"{svc.n_iter_[0]:13d}{model.score(X_test, y_test):16.3f}"
    )

print()
print(f"The last one in full: {proof}.")
print(f"The optimum lies between {proof.dual:.12g} and {proof.primal:.12g}.")
