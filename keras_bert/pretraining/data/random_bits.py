"""Random numbers that depend on keys such as the example, not on the order of the calls.

A hash gives example 17 of epoch 3 the same numbers in any batch, on any worker, and after a
restart. TensorFlow's stateless operations cannot do this: they take one seed per call, not one
seed per row.
"""

import enum
from typing import Any

import tensorflow as tf


class Purpose(enum.IntEnum):
    """Purpose of a random number.

    `random_bits` takes the purpose as one of its keys, so that each purpose gets its own numbers.
    """

    SCORE = 0
    COUNT = 1
    ACTION = 2
    REPLACEMENT = 3
    LENGTH = 4
    NOISE = 16


def mix(x: tf.Tensor) -> tf.Tensor:
    """Hashes uint32 to uint32 without collisions: "lowbias32" (Wellons 2018, hash-prospector)."""
    x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, _uint32(16)))
    x = x * _uint32(0x7FEB352D)
    x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, _uint32(15)))
    x = x * _uint32(0x846CA68B)
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, _uint32(16)))


def random_bits(*keys: Any) -> tf.Tensor:
    """Returns uint32 random numbers for keys: integers or integer tensors that are broadcast."""
    state = _uint32(0)
    for key in keys:
        # The odd constant (2³² / golden ratio) keeps zero from mapping to zero.
        state = mix(state + _uint32(0x9E3779B9) + _to_uint32(key))
    return state


def uniform(*keys: Any) -> tf.Tensor:
    """Returns float32 random numbers in [0, 1) for the keys of `random_bits`."""
    bits = tf.bitwise.right_shift(random_bits(*keys), _uint32(8))
    return tf.cast(bits, tf.float32) * 2.0**-24


def _to_uint32(key: Any) -> tf.Tensor:
    if isinstance(key, int):
        return _uint32(key % 2**32)
    return tf.cast(key, tf.uint32)


def _uint32(value: int) -> tf.Tensor:
    return tf.constant(value, tf.uint32)
