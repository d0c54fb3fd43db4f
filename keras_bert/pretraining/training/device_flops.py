"""How fast devices could be: products of matrices in bfloat16, dense, as their makers say.

NVIDIA's data sheets give most of these for sparse matrices, twice as many; V100 and T4 know float16
only. Google's are those of https://cloud.google.com/tpu/docs, of a chip.
"""

from __future__ import annotations

import os
import re
import urllib.request
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

# TFLOP/s by words that are in the name of a GPU; the first row that fits counts.
_GPUS = {
    ("H200", "NVL"): 835,
    ("H200",): 989,
    ("H100", "PCIe"): 756,
    ("H100", "NVL"): 835,
    ("H100",): 989,
    ("A100",): 312,
    ("L4",): 121,
    ("T4",): 65,
    ("V100", "PCIE"): 112,
    ("V100",): 125,
}
# TFLOP/s of what the number in a type counts: "v4-8" has 8 cores on 4 chips, "v6e-8" 8 chips.
_TPUS = {
    "v2": 45 / 2,
    "v3": 123 / 2,
    "v4": 275 / 2,
    "v5p": 459 / 2,
    "v5litepod": 197,
    "v6e": 918,
}
_TPU_TYPE = (
    "http://metadata.google.internal/computeMetadata/v1/instance/attributes/accelerator-type"
)


def peak_teraflops(strategy: tf.distribute.Strategy) -> float | None:
    """What a replica could do, in TFLOP/s; None for a device that is not in the tables."""
    import tensorflow as tf  # the tables are also of use without it

    if isinstance(strategy, tf.distribute.TPUStrategy):
        peak = peak_of_tpu(_tpu_type())
        return peak and peak / strategy.num_replicas_in_sync
    gpus = tf.config.get_visible_devices("GPU")
    if not gpus:
        return None
    return peak_of_gpu(tf.config.experimental.get_device_details(gpus[0]).get("device_name", ""))


def peak_of_gpu(name: str) -> float | None:
    """By the name that its driver gives it, such as "NVIDIA H100 80GB HBM3"."""
    words = set(re.findall(r"\w+", name))
    if "MIG" in words:  # a part of one
        return None
    return next((peak for key, peak in _GPUS.items() if words.issuperset(key)), None)


def peak_of_tpu(kind: str) -> float | None:
    """Of a whole slice, by its type, such as "v5litepod-8"."""
    generation, _, number = kind.partition("-")
    return _TPUS[generation] * int(number) if generation in _TPUS and number.isdigit() else None


def _tpu_type() -> str:
    """As Kubernetes Engine says, or a TPU VM's metadata server; "" where neither is."""
    if "TPU_ACCELERATOR_TYPE" in os.environ:
        return os.environ["TPU_ACCELERATOR_TYPE"]
    request = urllib.request.Request(_TPU_TYPE, headers={"Metadata-Flavor": "Google"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return ""
