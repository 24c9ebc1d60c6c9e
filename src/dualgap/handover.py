"""When one solver should leave the rest to another.

The first is quick to a fair solution and may take for ever to a good one (coordinate descent); the second costs about
the same whatever is asked of it (Newton's method). Progress is measured against work that is counted, not timed, so
that a run can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.result import Snapshot

# Looks before a rate is read off them.
_LEAST = 3


class Handover:
    """Decides, look by look.

    Parameters
    ----------
    goal : float
        What the gap (or the violation) has to fall to.
    expected : callable
        Seconds the other solver is expected to need from a point.
    hopeless : float
        Above this at the first look, after the passes that bring the most, the other solver takes over at once.
    sure : bool
        Whether the other solver is known to do well: it then takes over at the first look where the rate up to there,
        from a gap of 1, speaks against the first one, whose later passes cost as much and bring less.
    """

    def __init__(
        self,
        goal: float,
        expected: Callable[[NDArray[np.float64]], float],
        hopeless: float = np.inf,
        *,
        sure: bool = False,
    ) -> None:
        self.goal, self.expected, self.hopeless, self.sure = goal, expected, hopeless, sure
        self.looks: list[tuple[float, float]] = []

    def __call__(self, off: float, snapshot: Snapshot) -> bool:
        """Whether, at the present rate, the goal is further off than the other solver needs for all of it.

        The rate is that of the second half of the work so far, because the first solver slows down. It is also known to
        stand still and then to fall at once. So it is given as long as the other would need: at worst the run
        takes twice as long as the quicker of the two.
        """
        if snapshot.gradient is None or not off > 0.0:
            return False
        self.looks.append((snapshot.effort, off))
        if len(self.looks) < _LEAST:
            return len(self.looks) == 1 and (off > self.hopeless or (self.sure and self._slow(off, snapshot)))
        expected = self.expected(snapshot.a)
        if not snapshot.effort > expected:
            return False
        then, off_then = next(look for look in self.looks if look[0] >= 0.5 * snapshot.effort)
        fallen = np.log(off_then / off)
        left = np.log(off / self.goal) / fallen * (snapshot.effort - then) if fallen > 0.0 else np.inf
        return bool(left > expected)

    def _slow(self, off: float, snapshot: Snapshot) -> bool:
        """Whether what is left takes longer than the other solver, if it goes on as it has from a gap of 1."""
        if not self.goal < off < 1.0:
            return off >= 1.0
        left = snapshot.effort * np.log(off / self.goal) / -np.log(off)
        return bool(left > self.expected(snapshot.a))
