"""What is proved of a fitted estimator, as a table for notebooks."""

from __future__ import annotations

from html import escape
from typing import Any

_STYLE = "border:1px solid currentColor;opacity:.85;border-collapse:collapse;margin:.3em 0;font-size:smaller"
_CELL = "padding:.1em .6em;text-align:left"


def certificate_table(estimator: Any) -> str:
    """Rows of the certificate, of how the run ended and of which solver ran; everything is escaped."""
    certificate, tasks = estimator.certificate_, len(estimator.certificates_)
    if certificate.note:
        rows = [("Duality gap", f"none: {certificate.note}")]
    else:
        rows = [
            ("Relative duality gap", f"{certificate.relative_gap:.2e}"),
            ("Primal objective", f"{certificate.primal:.10g}"),
            ("Dual objective", f"{certificate.dual:.10g}"),
        ]
    rows += [
        ("KKT violation", f"{certificate.kkt_violation:.2e}"),
        ("Infeasibility", f"{certificate.infeasibility:.1e}"),
        ("Solver", estimator.solver_ if tasks == 1 else f"{estimator.solver_}, {tasks} tasks"),
        ("Status", f"{estimator.status_.name}: {estimator.status_.message}"),
    ]
    lines = "".join(
        f'<tr><th style="{_CELL}">{escape(name)}</th><td style="{_CELL}">{escape(value)}</td></tr>'
        for name, value in rows
    )
    return f'<table class="dualgap-certificate" style="{_STYLE}"><caption>Certificate</caption>{lines}</table>'
