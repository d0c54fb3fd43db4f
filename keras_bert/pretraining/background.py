"""A thread beside the training, and requests to stop it."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Background:
    """A thread that runs one function at a time.

    As a context, it waits at the end of the block for its work, even after an error.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "keras_bert")
        self._work: Future | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Waits for the work before, starts the new work and returns."""
        self.wait()
        self._work = self._executor.submit(work)

    def has_failed(self) -> bool:
        """Returns whether the work has failed since the last `wait`; does not wait."""
        work = self._work
        return work is not None and work.done() and work.exception() is not None

    def failure(self) -> BaseException | None:
        """Waits until the work is done; returns its error once, if it failed."""
        work, self._work = self._work, None
        return work.exception() if work is not None else None

    def wait(self) -> None:
        """Waits until the work is done.

        Raises:
            Exception: the error of the work.
        """
        if failure := self.failure():
            raise failure

    def __enter__(self) -> "Background":
        return self

    def __exit__(self, *error: Any) -> None:
        self.wait()
        self._executor.shutdown()


@contextlib.contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Makes the yielded function return True after the first SIGINT or SIGTERM in the block.

    The second one acts as usual. Outside of the main thread, where Python has no signals, the
    function stays false.
    """
    requested = threading.Event()
    previous: dict[int, Any] = {}

    def request(number: int, frame: object) -> None:
        requested.set()
        restore()

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            previous[number] = signal.signal(number, request)
    try:
        yield requested.is_set
    finally:
        restore()
