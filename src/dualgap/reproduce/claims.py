"""Claims of the papers and the verdicts on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
CANNOT_BE_TESTED = "cannot be tested"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, CANNOT_BE_TESTED)


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, where it stands there, the verdict and the figures behind it."""

    text: str
    where: str
    verdict: str
    evidence: str

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict must be one of {', '.join(VERDICTS)}; got {self.verdict!r}.")
        if not self.evidence:
            raise ValueError(f"the claim {self.text!r} needs evidence.")


def judged(text: str, where: str, holds: bool | None, evidence: str) -> Claim:
    """A claim with its verdict: holds, does not, or None where nothing was measured that could tell."""
    verdict = CANNOT_BE_TESTED if holds is None else REPRODUCED if holds else NOT_REPRODUCED
    return Claim(text, where, verdict, evidence)


def all_hold(values: Sequence[float], least: float) -> bool | None:
    """Whether every value is at least so large; None where there is none, or one is not a number."""
    if not values or any(math.isnan(value) for value in values):
        return None
    return all(value >= least for value in values)
