"""A path up and down from its middle value at the same time, each way on threads of its own.

A step between two values leaves little for several threads to share: pair steps are one thread's, and what is made of
kernel entries comes in small pieces. The way up from the middle value and the way down need nothing of each other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dualgap.kernels.threads import share
from dualgap.path.steps import Goal, Step, Walker

if TYPE_CHECKING:
    from dualgap.path.grams import KeptGram
    from dualgap.problem import DualQP
    from dualgap.result import Event


def both_ways(
    walker: Walker, ways: Sequence[Iterable[tuple[float, DualQP]]], gram: KeptGram, threads: int
) -> Iterator[Step]:
    """The steps of the first way, then those of the second; all are solved before the first is handed out.

    Parameters
    ----------
    walker : Walker
        It knows the solution that both ways begin with. Its goal has no callback: events would arrive mixed.
    ways : two iterables of (value, DualQP)
        In the order in which they are solved; each is read by one thread.
    gram : KeptGram
        The matrix of all these problems.
    threads : int
        Threads for both ways together, two at least. A way that is left alone has all of them.
    """
    ended = threading.Event()

    def asked(event: Event) -> bool:
        return ended.is_set()

    goal: Goal = replace(walker.goal, callback=asked)
    grams = [gram.beside_another(each) for each in (threads - threads // 2, threads // 2)]
    walkers = [walker.over(own, goal) for own in grams]
    steps: list[list[Step]] = [[], []]

    def walk_one(way: int) -> None:
        try:
            for value, problem in ways[way]:
                if ended.is_set():
                    return
                steps[way].append(walkers[way].step(value, replace(problem, gram=grams[way])))
        except BaseException:
            ended.set()  # the other way need not be walked to its end
            raise
        for own in grams:
            own.use(threads)

    try:
        share(walk_one, 2, 2)
    except BaseException:
        ended.set()  # an interrupt that came while this thread was waiting for the other
        raise
    yield from (step for way in steps for step in way)
