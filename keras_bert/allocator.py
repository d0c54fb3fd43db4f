"""Keeps freed memory in the process, for the next training step."""

import ctypes
import functools
import os
import sys

_MMAP_THRESHOLD, _TRIM_THRESHOLD, _TOP_PAD = -3, -1, -2  # of mallopt(3)


@functools.cache
def keep_freed_memory() -> None:
    """Lets glibc's allocator keep up to 256 MB of free memory, instead of returning it.

    By default, glibc returns large arrays to the kernel as soon as they are free. Then the next
    step must get new pages, which takes time. Nothing changes with other allocators, or if an
    environment variable (`MALLOC_...` or `GLIBC_TUNABLES`) already has settings for glibc.
    """
    chosen = any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ)
    mallopt = None
    if sys.platform == "linux" and not chosen:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    # Arrays of more than 64 MB are given back, so that the peak hardly grows. glibc refuses more
    # than 32 MB before version 2.35. The top pad is for other threads: if the pad were smaller
    # than a thread's heap (64 MB), the threads would return their whole heap.
    if mallopt(_MMAP_THRESHOLD, 2**26) or mallopt(_MMAP_THRESHOLD, 2**25):
        mallopt(_TRIM_THRESHOLD, 2**28)
        mallopt(_TOP_PAD, 2**26)
