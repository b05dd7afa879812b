"""Tasks that a handler of a plug-in carries out step by step, under the names of `heat.engine.scheduler`."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from types import GeneratorType
from typing import Any

ENABLE_SLEEP = True


class Timeout(BaseException):
    """A task has taken too long; plug-ins catch it in the task."""

    def __init__(self, task: TaskRunner, seconds: float) -> None:
        """Take the task, and the seconds from now on."""
        super().__init__(f"{task} Timed out")
        self.until = time.monotonic() + seconds

    def expired(self) -> bool:
        """Return whether the time is over."""
        return time.monotonic() > self.until


def _wait(seconds: float) -> None:
    _waiting(seconds)


_waiting: Callable[[float], None] = time.sleep
"""Waits for that many seconds, or until a child stack has changed."""


def wait_with(waiting: Callable[[float], None]) -> None:
    """Set the function with which tasks wait; it carries out child stacks while their handlers wait."""
    global _waiting  # noqa: PLW0603  # a task does not know the stack that it belongs to
    _waiting = waiting


class TaskRunner:
    """A function, or a generator that is carried out step by step."""

    def __init__(self, task: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Take the function and its arguments."""
        self.name = getattr(task, "__name__", type(task).__name__)
        self._call: Callable[[], Any] = lambda: task(*args, **kwargs)
        self._steps: Generator[Any, Any, Any] | None = None
        self._started = self._done = False
        self._skipped = 0
        self._timeout: Timeout | None = None

    def __str__(self) -> str:
        return f"Task {self.name}"

    def __call__(
        self,
        wait_time: float | None = 1,
        timeout: float | None = None,
        progress_callback: Callable[[], None] | None = None,
        post_func: Callable[[], Any] | None = None,
    ) -> None:
        """Carry out the whole task."""
        pause: float | None = None if wait_time is None else 0
        for _ in self.as_task(timeout, progress_callback, post_func):
            _pause(pause)
            pause = wait_time

    def start(self, timeout: float | None = None) -> None:
        """Carry out the first step."""
        if self._started or self._done:
            raise RuntimeError(f"{self} was started already")
        self._started = True
        self._timeout = None if timeout is None else Timeout(self, timeout)
        result = self._call()
        if isinstance(result, GeneratorType):
            self._steps = result
            self.step()
        else:
            self._done = True

    def step(self) -> bool:
        """Carry out the next step, and return whether it was the last."""
        if self._done:
            return True
        if self._steps is None:
            raise RuntimeError(f"{self} was not started")
        if self._skipped > 1:
            self._skipped -= 1
            return False
        if self._timeout is not None and self._timeout.expired():
            self._done = True
            self._end(self._steps, self._timeout)
            return True
        try:
            period = next(self._steps)
        except StopIteration:
            self._done = True
            return True
        self._skipped = period if isinstance(period, int) else 1
        return False

    @staticmethod
    def _end(steps: Generator[Any, Any, Any], timeout: Timeout) -> None:
        try:
            steps.throw(timeout)
        except StopIteration:
            return
        steps.close()

    def run_to_completion(
        self,
        wait_time: float | None = 1,
        progress_callback: Callable[[], None] | None = None,
    ) -> None:
        """Carry out the rest of the task."""
        for _ in self.as_task(None, progress_callback):
            _pause(wait_time)

    def as_task(
        self,
        timeout: float | None = None,
        progress_callback: Callable[[], None] | None = None,
        post_func: Callable[[], Any] | None = None,
    ) -> Generator[None, None, None]:
        """Return the task as a generator."""
        if not self._started:
            self.start(timeout)
        elif timeout is not None:
            self._timeout = Timeout(self, timeout)
        while not self._done:
            yield
            if progress_callback is not None:
                progress_callback()
            self.step()
        if post_func is not None:
            post_func()

    def cancel(self, grace_period: float | None = None) -> None:
        """End the task; with a grace period, only if it takes longer than that."""
        if self._done:
            return
        if self._started and grace_period is not None:
            self._timeout = Timeout(self, grace_period)
            return
        self._done = True
        if self._steps is not None:
            self._steps.close()

    def started(self) -> bool:
        """Return whether the task was started."""
        return self._started

    def done(self) -> bool:
        """Return whether the task has ended."""
        return self._done

    def __bool__(self) -> bool:
        return not self._done


def _pause(seconds: float | None) -> None:
    if seconds is not None and ENABLE_SLEEP:
        _wait(seconds)
