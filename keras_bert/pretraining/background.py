"""A background thread for work during the training, and requests to stop the training."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Background:
    """A thread that runs one function at a time.

    As a context manager, it waits for its work at the end of the `with` block, even after an error.
    """

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "keras_bert")
        self._work: Future | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Waits until earlier work is done, starts the new work and returns at once."""
        self.wait()
        self._work = self._executor.submit(work)

    def has_failed(self) -> bool:
        """Returns whether the work has failed since the last `wait`. Does not wait."""
        work = self._work
        return work is not None and work.done() and work.exception() is not None

    def failure(self) -> BaseException | None:
        """Waits until the work is done. If it failed, returns its error, but only once."""
        work, self._work = self._work, None
        return work.exception() if work is not None else None

    def wait(self) -> None:
        """Waits until the work is done.

        Raises:
            Exception: the work's error, if it failed.
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
    """Yields a function that returns whether SIGINT or SIGTERM has arrived in the `with` block.

    After the first signal, the earlier handlers are restored, so a second signal acts as usual.
    Outside the main thread, Python cannot handle signals, so the function always returns False.
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
