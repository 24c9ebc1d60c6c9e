"""How numbers are said, on the page and on the command line."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal


def at_most(value: float) -> str:
    """Two digits, rounded up: what is said to be a bound has to be one."""
    if not math.isfinite(value):
        return "an unknown amount"
    # From the shortest decimal that means this float, or 3.1e-06 would become 3.2e-06.
    return f"{float(Context(prec=2, rounding=ROUND_CEILING).plus(Decimal(repr(float(value))))):.1e}"
