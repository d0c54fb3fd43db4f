"""Where the training runs: strategies of `tf.distribute` by name."""

from collections.abc import Callable

import tensorflow as tf

from keras_bert.config import closest
from keras_bert.errors import InputError


def _mirrored() -> tf.distribute.Strategy:
    """All GPUs or, where there is none, all logical CPUs."""
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    devices = tf.config.list_logical_devices(kind)
    return tf.distribute.MirroredStrategy([f"{kind}:{n}" for n in range(len(devices))])


STRATEGIES: dict[str, Callable[[], tf.distribute.Strategy]] = {
    "default": tf.distribute.get_strategy,
    "mirrored": _mirrored,
}
"""Name to constructor: "default" is one device, "mirrored" all of this machine."""


def make_strategy(name: str) -> tf.distribute.Strategy:
    """The strategy of that name.

    Raises:
        InputError: if there is none.
    """
    if name not in STRATEGIES:
        raise InputError(
            f"There is no strategy {name!r}.{closest(name, STRATEGIES)}"
            f" Choose one of {', '.join(STRATEGIES)}."
        )
    return STRATEGIES[name]()
