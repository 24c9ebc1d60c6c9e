"""The problems of ``dualgap bench linear``: data sets, two losses and two values of C."""

from __future__ import annotations

from dataclasses import dataclass

from dualgap.bench.packages import chosen

LOSSES = ("hinge", "squared_hinge")
_COSTS = (0.1, 10.0)
# Read from files; only if named: generated (a gigabyte, several times over) and bundled with scikit-learn (too small to
# compare speed).
_FILES, _GENERATED, _BUNDLED = ("a9a", "reuters", "news20", "mnist", "ijcnn1", "covtype"), "generated", "breast_cancer"
# Where the order of coordinates matters most: the spread over seeds is measured with the hinge loss and C = 10.
_SEEDED = ("news20", "reuters", "mnist")


@dataclass(frozen=True)
class LinearMachine:
    """What is to be solved: ``min 1/2 |w|^2 + C sum_i loss(y_i w'x_i)``, loss(m) = max(0, 1 - m) or its square.

    Attributes
    ----------
    loss : {"hinge", "squared_hinge"}
        The loss.
    C : float
        Its weight.
    intercept : bool
        Whether a constant feature 1 is meant beside the others, its weight penalised like theirs (LIBLINEAR's).
    """

    loss: str
    C: float
    intercept: bool = False


@dataclass(frozen=True)
class LinearProblem:
    """One line of the comparison: a data set and a machine.

    Attributes
    ----------
    data : str
        Name of the set, see `linear_data.read_data`.
    loss : str
        See `LinearMachine`.
    C : float
        See `LinearMachine`.
    """

    data: str
    loss: str
    C: float

    @property
    def name(self) -> str:
        """How the command line selects it."""
        return f"{self.data}_{self.loss}_C{self.C:g}"

    @property
    def file(self) -> str:
        """The file it needs; empty where it needs none."""
        return self.data if self.data in _FILES else ""

    @property
    def usual(self) -> bool:
        """Whether it runs when no problem is selected."""
        return self.data in _FILES

    @property
    def seeded(self) -> bool:
        """Whether the spread over seeds is of interest."""
        return (self.loss, self.C) == ("hinge", 10.0) and self.data in (*_SEEDED, _BUNDLED)

    def title(self, intercept: bool = False) -> str:
        """Loss and parameters in a few words."""
        return f"{self.loss} C={self.C:g}{' intercept' if intercept else ''}"

    def machine(self, intercept: bool = False) -> LinearMachine:
        """What is to be solved."""
        return LinearMachine(self.loss, self.C, intercept)


PROBLEMS: dict[str, LinearProblem] = {
    problem.name: problem
    for problem in (
        LinearProblem(data, loss, C) for data in (*_FILES, _GENERATED, _BUNDLED) for loss in LOSSES for C in _COSTS
    )
}


def select(names: list[str]) -> list[LinearProblem]:
    """The problems of these names, all of a set where its name is given; the usual ones for an empty list."""
    if not names:
        return [problem for problem in PROBLEMS.values() if problem.usual]
    sets = {problem.data for problem in PROBLEMS.values()}
    whole = {problem.name for problem in PROBLEMS.values() if problem.data in names}
    rest = [name for name in names if name not in sets]
    named = set(chosen(rest, PROBLEMS, "problem")) if rest else set()
    return [problem for problem in PROBLEMS.values() if problem.name in whole | named]
