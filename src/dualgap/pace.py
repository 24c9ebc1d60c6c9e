"""When a run has to end for its time limit to be kept: before work that would not be done in time.

The limit is looked at between two pieces of work, and after the last one comes the certificate. Where both are short,
as they mostly are, a run takes all the time it is given. Where they are not, it ends early enough for what cannot be
left out or broken off to be over by the limit, or at most half a second later. Half of the time is put by for a
certificate at most: the proof of hardly anything is worth nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualgap.kernels.gram import FullGram, entry_cost
from dualgap.kernels.threads import thread_count

if TYPE_CHECKING:
    from dualgap.problem import DualQP

# Seconds that a run may take beyond its limit: below, nobody minds, and guesses are no better.
_GRACE = 0.5
# The part of the limit that is put by for the certificate at most.
_FOR_PROOF = 0.5
# Nanoseconds of a float64 kernel entry, and more for each multiplication it takes: 1.3 with 22 features, 2 with 54, 20
# with 784 on one core with AVX-512. Reading one from memory takes less than half of the first.
_ENTRY, _MULTIPLICATION, _STORED = 0.8, 0.025, 0.4


class Pace:
    """The clock of one run against its limit.

    Parameters
    ----------
    limit : float or None
        Seconds; None for no limit.

    Examples
    --------
    Steps of two seconds: the one that would begin after 9 of 10 seconds is not taken.

    >>> pace = Pace(10.0)
    >>> [pace.over(now) for now in (1.0, 3.0, 5.0, 7.0, 9.0)]
    [False, False, False, False, True]
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self._before: float | None = None

    def over(self, now: float, ahead: float = 0.0, proof: float = 0.0) -> bool:
        """Whether to end here.

        Parameters
        ----------
        now : float
            Seconds since the run began.
        ahead : float
            What the next piece of work is known to take. It is taken to last at least as long as the last one.
        proof : float
            What the certificate will take.
        """
        last = 0.0 if self._before is None else now - self._before
        self._before = now
        if self.limit is None:
            return False
        coming = max(ahead, last) + min(proof, _FOR_PROOF * self.limit)
        return now >= self.limit or now + coming > self.limit + _GRACE


def proof_seconds(problem: DualQP, support: int) -> float:
    """About how long a certificate takes: the kernel entries of all points with those in use."""
    gram = problem.gram
    if getattr(gram, "factor", None) is not None:
        return 0.0  # two products with the factor
    stored = isinstance(gram, FullGram) and gram.source is None
    each = _STORED if stored else _ENTRY + _MULTIPLICATION * entry_cost(gram)
    return 1e-9 * each * support * problem.points.size / thread_count(getattr(gram, "n_jobs", None))
