"""Work beside the training."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Background:
    """A thread with one piece of work at a time.

    Left as a context, it waits for its work, which is thus done also where an error ends the
    block.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "keras_bert")
        self._work: Future | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Waits for the work before, then begins with this one and returns."""
        self.wait()
        self._work = self._executor.submit(work)

    def has_failed(self) -> bool:
        """Whether the work has ended by raising, and nobody has waited for it; does not wait."""
        work = self._work
        return work is not None and work.done() and work.exception() is not None

    def failure(self) -> BaseException | None:
        """Waits until all is done; what the work raised, if it did, told once."""
        work, self._work = self._work, None
        return work.exception() if work is not None else None

    def wait(self) -> None:
        """Until all is done.

        Raises:
            Exception: what the work raised.
        """
        if failure := self.failure():
            raise failure

    def __enter__(self) -> "Background":
        return self

    def __exit__(self, *error: Any) -> None:
        self.wait()
        self._executor.shutdown()
