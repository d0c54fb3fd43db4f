"""What a measured stretch takes, on the wall and of the processors."""

import time


def now():
    """Where both clocks stand."""
    return time.monotonic(), time.process_time()


def between(began, ended):
    """Seconds from one `now` to another."""
    seconds, processor_seconds = (b - a for a, b in zip(began, ended, strict=True))
    return {"seconds": seconds, "processor_seconds": processor_seconds}
