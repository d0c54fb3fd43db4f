"""Ctrl-C and SIGTERM as a wish to stop, granted between two steps."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Within the block, the first SIGINT or SIGTERM only makes the yielded function true.

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
