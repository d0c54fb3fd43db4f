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

    def wait(self) -> None:
        """Until all is done.

        Raises:
            Exception: what the work raised.
        """
        work, self._work = self._work, None
        if work is not None:
            work.result()

    def __enter__(self) -> "Background":
        return self

    def __exit__(self, *error: Any) -> None:
        self.wait()
        self._executor.shutdown()
