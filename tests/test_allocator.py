"""`keep_freed_memory`: whether a process keeps memory is read from the kernel."""

import os
import platform
import subprocess
import sys

import pytest

KEPT = """
from pathlib import Path
from keras_bert.allocator import keep_freed_memory

def resident():  # MB
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20

keep_freed_memory()
before = resident()
arrays = [bytearray(b"1") * 2**23 for _ in range(10)]
assert resident() - before > 79
del arrays
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="is only for glibc")
@pytest.mark.parametrize(
    ("settings", "kept"), [({}, True), ({"MALLOC_TRIM_THRESHOLD_": "131072"}, False)]
)
def test_freed_memory_is_kept_unless_the_environment_says_otherwise(settings, kept):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", KEPT]
    done = subprocess.run(
        command, env=environment | settings, capture_output=True, text=True, check=True
    )
    assert (float(done.stdout) > 70) == kept
