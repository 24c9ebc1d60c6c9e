"""A path up and down from its first value at the same time, each way on threads of its own.

A step between two values leaves little for several threads to share: pair steps are one thread's, and what is made of
kernel entries comes in small pieces. The way up from the first value and the way down need nothing of each other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
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
) -> list[list[Step]]:
    """The steps of each way, those that are complete where the goal's callback ends them.

    Parameters
    ----------
    walker : Walker
        It knows the solution that both ways begin with. A callback of its goal is called by one way at a time, with
        events of both.
    ways : two iterables of (value, DualQP)
        In the order in which they are solved; each is read by one thread.
    gram : KeptGram
        The matrix of all these problems.
    threads : int
        Threads for both ways together, two at least. A way that is left alone has all of them.
    """
    ended, telling = threading.Event(), threading.Lock()
    callback = walker.goal.callback

    def asked(event: Event) -> bool:
        if callback is not None:
            with telling:
                # Nobody is told anything after having asked for the end.
                if not ended.is_set() and callback(event) is True:
                    ended.set()
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
                step = walkers[way].step(value, replace(problem, gram=grams[way]))
                if ended.is_set():
                    return  # it may have been cut short
                steps[way].append(step)
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
    return steps
