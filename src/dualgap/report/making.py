"""`dualgap.report`: a fitted estimator or a path on one page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dualgap.report.estimator import summarise
from dualgap.report.markup import escape
from dualgap.report.page import render_page, write_text
from dualgap.report.path_page import render_path

if TYPE_CHECKING:
    from os import PathLike

# Height of the page inside a notebook, in CSS pixels: the headline and two charts.
_NOTEBOOK_HEIGHT = 720


@dataclass(frozen=True)
class Report:
    """A finished page; a notebook shows it.

    Attributes
    ----------
    html : str
        The whole document.
    """

    html: str

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to a file that appears whole or not at all."""
        write_text(self.html, path)

    def __repr__(self) -> str:
        return f"Report({len(self.html.encode()):,} bytes of HTML; save(path) writes it)"

    def _repr_html_(self) -> str:
        # In a frame of its own, so that neither style sheet reaches the other's elements.
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="report" '
            f'style="width:100%;height:{_NOTEBOOK_HEIGHT}px;border:0"></iframe>'
        )


def report(
    estimator: Any,
    path: str | PathLike[str] | None = None,
    X: Any = None,
    y: Any = None,
    *,
    title: str | None = None,
) -> Report:
    """Put a fitted estimator, or a path, on one HTML page that needs nothing but a browser to be read.

    Parameters
    ----------
    estimator : object
        A fitted estimator of dualgap, a pipeline that ends in one, a search over one, or a `PathResult`.
    path : str or path-like, optional
        Where to write the page; a file that is there is replaced.
    X, y : array-like, optional
        Samples, best held-out ones, and their labels: with them the page shows scores, the confusion matrix, margins
        and, for two features, the boundary.
    title : str, optional
        Heading of the page.

    Returns
    -------
    Report
        The page; ``str(report.html)`` is the document, and a notebook shows it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import dualgap
    >>> X, y = load_iris(return_X_y=True)
    >>> page = dualgap.report(dualgap.SVC(gap_tol=1e-6).fit(X, y), X=X, y=y)
    >>> "Confusion matrix" in page.html
    True
    """
    from dualgap.path import PathResult

    if isinstance(estimator, PathResult):
        if X is not None or y is not None:
            raise ValueError("A path has no use for X and y here: pass validation=(X, y) or cv= to svm_path.")
        made = Report(render_path(estimator, title))
    else:
        made = Report(render_page(summarise(estimator, X, y, title=title)))
    if path is not None:
        made.save(path)
    return made
