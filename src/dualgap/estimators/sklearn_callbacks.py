"""scikit-learn's own callbacks (`set_callbacks`, from version 1.9 on), such as its `ProgressBar`.

They count steps, and a solver does not know how many it will take. So a task has a hundred steps here: hundredths of
the way from its first gap to the goal, on a log scale. ``on_fit_task_end`` may ask to stop by returning True.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dualgap.course import Course

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Any) -> Any:
        """Nothing to call."""
        return method


if TYPE_CHECKING:
    from dualgap.result import Event

_HUNDRED = 100


class Steps:
    """The tree of steps of one fit: the fit, its tasks, and the hundredths of each."""

    def __init__(self, estimator: Any, tol: float, gap_tol: float | None) -> None:
        self.estimator, self.tol, self.gap_tol = estimator, tol, gap_tol
        self.root: Any = None
        self.task: Any = None
        self.number = -1

    def expect(self, tasks: int) -> None:
        """So many tasks there will be."""
        if self.root is None:
            self.root = self.estimator._init_callback_context(max_subtasks=tasks)
            self.root.call_on_fit_task_begin(estimator=self.estimator)

    def add(self, number: int, event: Event) -> bool:
        """Take the steps that an event stands for; whether a callback asks to stop."""
        self.expect(1)
        if number != self.number:
            self._end_task()
            self.number, self.course, self.done = number, Course(self.tol, self.gap_tol), 0
            self.task = self.root.subcontext(task_name=f"task {number + 1}", max_subtasks=_HUNDRED)
            self.task.call_on_fit_task_begin(estimator=self.estimator)
        self.course.add(event)
        return self._step_to(int(_HUNDRED * (self.course.fraction or 0.0)))

    def _step_to(self, goal: int) -> bool:
        stop = False
        while self.done < goal:
            self.done += 1
            step = self.task.subcontext(task_name="step")
            step.call_on_fit_task_begin(estimator=self.estimator)
            stop |= bool(step.call_on_fit_task_end(estimator=self.estimator))
        return stop

    def _end_task(self) -> None:
        if self.task is not None:
            self.task.call_on_fit_task_end(estimator=self.estimator)
            self.task = None

    def close(self) -> None:
        """The fit is over."""
        if self.root is not None:
            self._end_task()
            self.root.call_on_fit_task_end(estimator=self.estimator)
            self.root = None


__all__ = ["CallbackSupportMixin", "Steps", "with_callbacks"]
