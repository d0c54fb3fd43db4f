import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_bert.pretraining.data.random_bits import mix, random_bits, uniform

MANY = 2**18


def reference(*keys):
    """The same in Python's integers."""
    state = 0
    for key in keys:
        state = (state + 0x9E3779B9 + key) % 2**32
        state ^= state >> 16
        state = state * 0x7FEB352D % 2**32
        state ^= state >> 15
        state = state * 0x846CA68B % 2**32
        state ^= state >> 16
    return state


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=4))
def test_equals_python(keys):
    assert int(random_bits(*keys)) == reference(*keys)
    tensors = [tf.constant(key, tf.int64) for key in keys]
    assert int(random_bits(*tensors)) == reference(*keys)


def test_keys_broadcast():
    rows, columns = tf.range(3)[:, None], tf.range(5)
    expected = [[reference(7, row, column) for column in range(5)] for row in range(3)]
    np.testing.assert_array_equal(random_bits(7, rows, columns), expected)


def test_mixing_loses_nothing():
    assert len(np.unique(mix(tf.cast(tf.range(MANY) * 977, tf.uint32)))) == MANY


# Counters are what keys are: one that runs while others stand.
COUNTERS = {
    "alone": lambda n: (n,),
    "example": lambda n: (0, 1, n),
    "position": lambda n: (random_bits(0, 1, n // 512), 2, n % 512),
    "seed": lambda n: (n, 0, 0),
}


@pytest.mark.parametrize("keys", COUNTERS.values(), ids=COUNTERS)
def test_uniform(keys):
    drawn = uniform(*keys(tf.range(MANY))).numpy()
    assert 0 <= drawn.min() < drawn.max() < 1
    # Chi-squared over 256 bins: 255 expected, deviation 22.6.
    counts = np.bincount((drawn * 256).astype(int), minlength=256)
    assert ((counts - MANY / 256) ** 2 / (MANY / 256)).sum() < 255 + 5 * 22.6
    # Neighbours do not resemble each other.
    for distance in (1, 2, 128, 512):
        correlation = np.corrcoef(drawn[:-distance], drawn[distance:])[0, 1]
        assert abs(correlation) < 5 / np.sqrt(MANY)


@pytest.mark.parametrize("keys", COUNTERS.values(), ids=COUNTERS)
def test_every_bit_is_a_coin(keys):
    bits = random_bits(*keys(tf.range(MANY))).numpy()
    shares = [np.mean((bits >> bit) & 1) for bit in range(32)]
    np.testing.assert_allclose(shares, 0.5, atol=5 * 0.5 / np.sqrt(MANY))


def test_one_bit_of_a_key_changes_half_of_the_bits():
    keys = np.arange(2**14)
    for bit in range(0, 32, 5):
        difference = random_bits(0, tf.constant(keys)) ^ random_bits(
            0, tf.constant(keys ^ 1 << bit)
        )
        changed = np.unpackbits(difference.numpy().view(np.uint8)).mean()
        assert changed == pytest.approx(0.5, abs=0.01)


def test_purposes_are_independent():
    """Another key gives another draw."""
    drawn = [uniform(5, purpose, tf.range(MANY)).numpy() for purpose in range(5)]
    correlation = np.corrcoef(drawn) - np.eye(5)
    assert np.abs(correlation).max() < 5 / np.sqrt(MANY)
