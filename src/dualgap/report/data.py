"""What a page is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from dualgap.report.boundary import Plane
    from dualgap.report.margins import Margins
    from dualgap.result import Certificate, History

    IntMatrix = NDArray[np.integer[Any]] | Sequence[Sequence[int]]


@dataclass(frozen=True)
class ReportData:
    """What a page is made of.

    Attributes
    ----------
    title : str
        The heading of the page.
    certificate_rows : sequence of (str, Certificate)
        One for each binary task; a single one for regression and one-class.
    histories : sequence of (str, History)
        The runs of the same tasks, under the same names.
    status_sentences : sequence of str
        How the runs ended (`Status.message`); equal sentences are shown once, with a count.
    facts : mapping of str to str
        Shape of the data, versions, timings; shown in this order.
    confusion : (sequence of str, square int matrix) or None
        The classes and how often each (row: true) was taken for each (column: predicted).
    scores : mapping of str to float
        Named scores, such as accuracy; shown in this order.
    margins : Margins or None
        Where samples lie.
    plane : Plane or None
        How two features are divided.
    samples : str
        Which samples the scores and drawings are about, such as "171 samples given to the report".
    settings : mapping of str to str
        Parameters of the estimator; shown in this order.
    """

    title: str
    certificate_rows: Sequence[tuple[str, Certificate]]
    histories: Sequence[tuple[str, History]] = ()
    status_sentences: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    confusion: tuple[Sequence[str], IntMatrix] | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    margins: Margins | None = None
    plane: Plane | None = None
    samples: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.confusion is None:
            return
        labels, matrix = self.confusion
        if len(matrix) != len(labels) or any(len(row) != len(labels) for row in matrix):
            raise ValueError(f"confusion needs a {len(labels)} x {len(labels)} matrix, one row a label")
