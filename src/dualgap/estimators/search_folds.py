"""All candidates of a grid on all folds, over one kernel matrix a gamma.

All folds read one kernel matrix over all samples (a fold has no variables for the samples it holds out), solutions are
carried along ascending C, and held-out samples are predicted from rows of the same matrix.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import _check_method_params

from dualgap.formulations import FORMULATIONS, build
from dualgap.kernels.threads import one_blas_thread, share, thread_count
from dualgap.path.grams import lasting_gram
from dualgap.path.held_out import decision
from dualgap.path.steps import Goal, walk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.functions import Kernel
    from dualgap.kernels.gram import Gram

    # The target of each sample, and its weight: zero for those that a task leaves out.
    Task = tuple[NDArray[np.float64], NDArray[np.float64]]
    Candidate = dict[str, Any]

# Training samples of a fold up to which folds run side by side: beyond, one solve keeps all threads busy.
_SIDE_BY_SIDE = 4096


class Folds:
    """Scores of candidates on folds; what a machine is made of is said by the two methods at the end."""

    def __init__(
        self,
        owner: Any,
        X: Any,
        y: NDArray[Any],
        weight: Any,
        splits: list[Any],
        scorers: Any,
        score_params: Any,
    ) -> None:
        self.owner, self.X, self.y, self.splits, self.scorers = owner, X, y, splits, scorers
        # Newer versions of scikit-learn weigh scores as well.
        self.score_params = score_params
        self.weight = np.ones(len(y)) if weight is None else np.maximum(weight, 0.0)
        self.machine: Any = owner.estimator
        self.threads = thread_count(owner.n_jobs)

    def run(self, candidates: list[Candidate]) -> list[dict[str, Any]]:
        """What `BaseSearchCV` makes its table of: a dictionary a candidate and fold."""
        # Every solve asks for it; to set and lift the limit each time takes as long as a step of a small path.
        with one_blas_thread():
            return self._run(candidates)

    def _run(self, candidates: list[Candidate]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [{} for _ in range(len(candidates) * len(self.splits))]
        gammas = [candidate.get("gamma", self.machine.gamma) for candidate in candidates]
        for gamma in dict.fromkeys(gammas):
            began = time.perf_counter()
            grams = self._grams(gamma)
            mine = [k for k, own in enumerate(gammas) if own == gamma]
            for walked in _along_C(mine, candidates):

                def fold(number: int, walked: list[int] = walked, grams: list[Gram] = grams) -> None:
                    steps = self._along(number, grams[number], [candidates[k] for k in walked])
                    for k, scores in zip(walked, steps, strict=True):
                        found[k * len(self.splits) + number] = scores

                share(fold, len(self.splits), self.threads if self._largest() <= _SIDE_BY_SIDE else 1)
            if self.owner.verbose:
                print(f"gamma={gamma}: {len(mine)} candidates, {time.perf_counter() - began:.1f} s")
        return found

    def _grams(self, gamma: Any) -> list[Gram]:
        """A Gram matrix a fold: the same one, unless gamma depends on the training samples."""
        made: dict[Kernel, Gram] = {}
        kernels = []
        for train, _ in self.splits:
            model = clone(self.machine).set_params(gamma=gamma)
            # "scale" depends on the training samples and their weights.
            chosen = (self.X[train], self.weight[train]) if gamma == "scale" else (self.X, None)
            kernel = model._make_kernel(*chosen)
            if kernel not in made:
                made[kernel] = lasting_gram(
                    self.X, kernel, cache_size=self.machine.cache_size, n_jobs=self.owner.n_jobs, all_rows=True
                )
            kernels.append(kernel)
        grams = [made[kernel] for kernel in kernels]
        if self.threads == 1 or self._largest() > _SIDE_BY_SIDE:
            return grams
        # Folds that run side by side share what is stored, and nothing that changes.
        return [gram.separate() for gram in grams]  # type: ignore[attr-defined]

    def _largest(self) -> int:
        """Training samples of the largest fold."""
        return max(len(train) for train, _ in self.splits)

    def _along(self, number: int, gram: Gram, candidates: list[Candidate]) -> Iterator[dict[str, Any]]:
        """Scores of candidates that differ in C only, in ascending order."""
        train, test = self.splits[number]
        shape = clone(self.machine)
        try:
            tasks = self._tasks(shape, train)
        except ValueError:
            if self.owner.error_score == "raise":
                raise
            yield from (self._failed(test) for _ in candidates)
            return
        rows = np.concatenate([test, train]) if self.owner.return_train_score else np.asarray(test)
        walks = [self._walk(gram, task, candidates) for task in tasks]
        for candidate in candidates:
            began = time.perf_counter()
            steps = [next(one) for one in walks]
            fitted = time.perf_counter()
            values = np.column_stack([decision(step, rows) for step in steps])
            yield self._scored(shape, candidate, values, test, train, fitted - began)

    def _walk(self, gram: Gram, task: Task, candidates: list[Candidate]) -> Iterator[Any]:
        """Solutions of one task, each from the one before."""
        target, inside = task
        row, machine = self.machine._row, self.machine
        goal = Goal(
            machine.solver,
            machine.tol,
            machine.gap_tol,
            {key: value for key, value in (machine.solver_options or {}).items() if key != "cache"},
            machine.max_iter,
            machine.time_limit,
            warn=False,
        )

        def problems() -> Iterator[Any]:
            for candidate in candidates:
                parameters: dict[str, Any] = {
                    name: float(candidate.get(name, getattr(machine, name))) for name in FORMULATIONS[row].parameters
                }
                yield parameters["C"], build(row, gram, target, sample_weight=inside, **parameters)

        return walk(problems(), goal, ratios=True)

    def _scored(
        self, shape: Any, candidate: Candidate, values: NDArray[np.float64], test: Any, train: Any, fit_time: float
    ) -> dict[str, Any]:
        began = time.perf_counter()
        scores = {"test_scores": self._score(shape, candidate, values[: len(test)], test)}
        score_time = time.perf_counter() - began
        if self.owner.return_train_score:
            scores["train_scores"] = self._score(shape, candidate, values[len(test) :], train)
        return {**scores, "fit_time": fit_time, "score_time": score_time, "n_test_samples": len(test)}

    def _score(self, shape: Any, candidate: Candidate, values: NDArray[np.float64], rows: Any) -> Any:
        """Scores of a model whose values for these rows are known already."""
        model: Any = copy(shape)  # scikit-learn's clone takes as long as a small fit
        vars(model).update(candidate)
        self._answer(model, values)
        own = self._own_score(model, self.y[rows]) if self.owner.scoring is None and not self.score_params else None
        if own is not None:
            return own
        X = self.X[rows]
        return self.scorers(model, X, self.y[rows], **_check_method_params(self.X, self.score_params, rows))

    def _own_score(self, model: Any, y: NDArray[Any]) -> float | None:
        """What `model.score` says, without checks that cost more than a small fit; None where it is not known."""
        return None

    def _failed(self, test: Any) -> dict[str, Any]:
        score: Any = self.owner.error_score
        names = getattr(self.scorers, "_scorers", None)
        scores = score if names is None else dict.fromkeys(names, score)
        both = {"test_scores": scores, "train_scores": scores}
        return {**both, "fit_time": 0.0, "score_time": 0.0, "n_test_samples": len(test)}

    def _everyone(self, train: Any, values: NDArray[np.float64], others: float) -> NDArray[np.float64]:
        """Values of the training samples, spread over all samples."""
        spread = np.full(len(self.y), others)
        spread[train] = values
        return spread

    def _tasks(self, shape: Any, train: Any) -> list[Task]:
        """The tasks of a fold; `shape` learns its classes. Raises ValueError where it cannot be fitted."""
        raise NotImplementedError

    def _answer(self, model: Any, values: NDArray[np.float64]) -> None:
        """Make a model answer with values that are known."""
        raise NotImplementedError


def _along_C(mine: list[int], candidates: list[Candidate]) -> list[list[int]]:
    """Places of candidates that differ in C only, by ascending C."""
    groups: dict[Any, list[int]] = {}
    for k in mine:
        groups.setdefault(candidates[k].get("epsilon"), []).append(k)
    return [sorted(group, key=lambda k: candidates[k]["C"]) for group in groups.values()]
