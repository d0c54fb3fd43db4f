"""Keras' `fit` on one device and two workers; tests of fine-tuning have two replicas."""

import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.distribution.keras_fit import prepare_fit
from keras_bert.distribution.strategy import make_strategy
from keras_bert.errors import InputError
from tests.pretraining import processes
from tests.pretraining.models import BATCH, batches, make_model


def fit(index, strategy, path):
    """Writes the losses of two epochs and of an evaluation."""
    with make_strategy(strategy).scope():
        keras.utils.set_random_seed(0)
        model = make_model("mlm+nsp")
        heads = ("mlm_logits", "nsp_logits")
        losses = {
            head: keras.losses.SparseCategoricalCrossentropy(from_logits=True) for head in heads
        }
        model.compile(keras.optimizers.SGD(0.1), losses)
    prepare_fit(model)
    examples = [(x, y) for x, y, _ in batches(4)]
    stacked = tf.nest.map_structure(lambda *parts: np.concatenate(parts), *examples)
    dataset = tf.data.Dataset.from_tensor_slices(stacked).batch(BATCH, drop_remainder=True)
    history = model.fit(dataset, epochs=2, verbose=0).history
    history |= model.evaluate(dataset, verbose=0, return_dict=True)
    path.with_suffix(f".{index}").write_text(json.dumps(history))


@pytest.mark.slow
def test_fit_does_the_same_on_two_workers(tmp_path):
    histories = []
    for strategy in ("default", "multi_worker"):
        number = processes.PROCESSES[strategy]
        path = tmp_path / strategy
        assert processes.run_all(strategy, fit, strategy, path) == [0] * number
        histories += [json.loads(path.with_suffix(f".{n}").read_text()) for n in range(number)]
    for history in histories[1:]:
        assert history.keys() == histories[0].keys()
        for name, values in history.items():
            np.testing.assert_allclose(values, histories[0][name], rtol=1e-5)


def compiled(replicas=2, steps_per_execution=1, jit_compile=False, **options):
    return SimpleNamespace(
        distribute_strategy=SimpleNamespace(num_replicas_in_sync=replicas),
        steps_per_execution=steps_per_execution,
        jit_compile=jit_compile,
        optimizer=keras.optimizers.AdamW(**options),
    )


@pytest.mark.parametrize(
    "options",
    [
        {"jit_compile": True},
        {"steps_per_execution": 2},
        {"gradient_accumulation_steps": 2},
        {"use_ema": True},
        {"global_clipnorm": 1.0},
    ],
)
def test_what_keras_cannot_do_on_replicas_is_refused_by_name(options):
    (name,) = options
    with pytest.raises(InputError, match=f"does not support {name}.* on 2 replicas"):
        prepare_fit(compiled(**options))
    prepare_fit(compiled(replicas=1, **options))
    prepare_fit(compiled())
