"""Measure the seconds between two moments, by the clock and in processor time."""

import time


def now():
    """Returns the time by the clock and the processor time."""
    return time.monotonic(), time.process_time()


def between(began, ended):
    """Returns the seconds from one `now` to another, by both clocks."""
    seconds, processor_seconds = (b - a for a, b in zip(began, ended, strict=True))
    return {"seconds": seconds, "processor_seconds": processor_seconds}
