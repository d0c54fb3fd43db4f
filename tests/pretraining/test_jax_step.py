"""The step on Keras' JAX backend, over two devices: against TensorFlow's, and against one."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.optimizers.distributed import LAMB
from tests.pretraining import small
from tests.pretraining.models import COMPARED, batches, make_model

pytest.importorskip("jax")

DEFAULT = tf.distribute.get_strategy()
ENVIRONMENT = {
    "KERAS_BACKEND": "jax",
    "JAX_PLATFORMS": "cpu",
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # compiles faster
    "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
}


@pytest.fixture(
    scope="module", params=[COMPARED[:1], pytest.param(COMPARED[1:], marks=pytest.mark.sweep)]
)
def both(request, tmp_path_factory):
    """TensorFlow's steps by objective, and what they do on JAX."""
    directory = tmp_path_factory.mktemp("jax")
    steps = {name: small.make_step(DEFAULT, objective=name) for name in request.param}
    for objective, step in steps.items():
        weights = [v.numpy() for v in step.model.weights if "seed" not in v.path]
        np.savez(directory / f"{objective}.npz", *weights)
    command = [sys.executable, "-m", "tests.pretraining.jax_run", str(directory), *steps]
    subprocess.run(command, env=os.environ | ENVIRONMENT, check=True, timeout=900)
    return steps, lambda name: dict(np.load(directory / f"{name}.npz"))


def assert_same_steps(jax, step, objective):
    """Ten of them on JAX and on TensorFlow."""
    iterator = small.distributed(DEFAULT, batches(10, objective=objective))
    for sums, norm in zip(jax.pop("sums"), jax.pop("norms"), strict=True):
        result = step.train(iterator, tf.constant(1))
        # A divergence is a small difference of large numbers.
        np.testing.assert_allclose(sums, result["sums"], rtol=1e-5, atol=3e-5)
        np.testing.assert_allclose(norm, result["gradient_norm"], rtol=1e-4)
    weights = small.weights(step)
    assert jax.keys() == weights.keys()
    for name, weight in weights.items():
        np.testing.assert_allclose(jax[name], weight, atol=1e-5, rtol=0, err_msg=name)


@pytest.mark.slow
def test_same_losses_and_weights_as_on_tensorflow(both):
    steps, on_jax = both
    for objective, step in steps.items():
        assert_same_steps(on_jax(f"{objective}-after"), step, objective)


@pytest.mark.slow
def test_lamb_is_that_of_tensorflow(both):
    steps, on_jax = both
    objective = list(steps)[-1]
    step = small.make_step(DEFAULT, objective=objective, optimizer=LAMB)
    assert_same_steps(on_jax("lamb"), step, objective)


@pytest.mark.slow
def test_micro_batches_train_as_the_whole_batch_does(both):
    steps, on_jax = both
    whole, parts = on_jax(f"{list(steps)[-1]}-after"), on_jax("accumulation")
    assert whole.keys() == parts.keys()
    np.testing.assert_allclose(parts.pop("sums"), whole.pop("sums"), rtol=1e-5, atol=1e-5)
    for name, value in parts.items():
        np.testing.assert_allclose(value, whole[name], atol=1e-6, rtol=0, err_msg=name)


@pytest.mark.slow
def test_two_devices_train_as_one_does_with_dropout(both):
    one, two = (both[1](devices) for devices in ("one-device", "two-devices"))
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_rows_that_cannot_be_divided_are_reported():
    from keras_bert.pretraining.training.jax_step import JaxTrainingStep

    step = JaxTrainingStep(make_model("mlm+nsp"), None, gradient_accumulation_steps=3)
    with pytest.raises(InputError, match="8 rows cannot be divided into 3 micro-batches"):
        step(None, next(batches(1)))
