"""Gradients with rematerialization equal gradients without, with the same dropout masks."""

import functools
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_bert as kb
from tests.jax_backend import run_on_jax
from tests.layers.test_encoder import SMALL, padded_batch
from tests.marks import others_swept

SCOPES = {
    "full": {},
    "larger_than": {"output_size_threshold": 200},  # an output has 9 x 24 values
    "list_of_layers": {"layer_names": ["layer_0", "layer_2"]},
    "activations": {},
}
CONFIGURATIONS = {
    "BERT": {},
    "ALBERT": {"layer_groups": 1},
    "DeBERTa": {"relative_positions": 8, "position_buckets": 4, "convolution_size": 3},
}


def trained(scope=None, remat=False, steps=2, **changes):
    """Returns a classifier's weights after training steps, and the name of each call's layer."""
    calls, call = [], kb.layers.encoder.EncoderLayer.call

    @functools.wraps(call)
    def counted(self, *args, **kwargs):
        calls.append(self.name)
        return call(self, *args, **kwargs)

    keras.utils.set_random_seed(0)
    with pytest.MonkeyPatch.context() as patch, scope or keras.RematScope(None):
        patch.setattr(kb.layers.encoder.EncoderLayer, "call", counted)
        encoder = kb.Encoder(kb.EncoderConfig(**SMALL | changes), remat=remat)
        model = kb.SequenceClassifier(encoder, 2)
        model.compile(keras.optimizers.SGD(0.1), model.default_loss(), jit_compile=False)
        for _ in range(steps):  # the second step has other masks
            model.train_on_batch(padded_batch(), np.array([0, 1, 0]))
    return model.get_weights(), calls


def assert_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("changes", others_swept(CONFIGURATIONS.values(), 1), ids=CONFIGURATIONS)
def test_remat(changes):
    (expected, once), (found, twice) = (trained(remat=remat, **changes) for remat in (False, True))
    assert_equal(found, expected)
    assert len(twice) == 2 * len(once)  # while the graph is made


@pytest.mark.parametrize(("mode", "options"), SCOPES.items(), ids=SCOPES)
def test_scope(mode, options):
    expected, once = trained()
    found, calls = trained(keras.RematScope(mode, **options))
    assert_equal(found, expected)
    again = {name: calls.count(name) > once.count(name) for name in set(once)}
    names = options.get("layer_names", again if mode != "activations" else [])
    assert again == {name: name in names for name in again}


def test_a_high_threshold_rematerializes_nothing():
    _, once = trained(steps=1)
    _, calls = trained(keras.RematScope("larger_than", output_size_threshold=10_000), steps=1)
    assert calls == once


def test_masks_change_from_step_to_step():
    """Seeds go on as in an ordinary model: the second step has other masks."""
    keras.utils.set_random_seed(0)
    encoder = kb.Encoder(kb.EncoderConfig(**SMALL), remat=True)
    first, second = (encoder(padded_batch(), training=True)["pooled_output"] for _ in range(2))
    assert not np.allclose(first, second)


def test_attention_probabilities_on_request():
    keras.utils.set_random_seed(0)
    encoder = kb.Encoder(kb.EncoderConfig(**SMALL), remat=True)
    outputs = encoder(padded_batch(), training=True, return_attentions=True)
    assert [x.shape for x in outputs["attentions"]] == [(3, 4, 9, 9)] * 3


@pytest.mark.parametrize("quantize", [False, True])
def test_with_adapters(quantize):
    """Frozen kernels, also of int8, have no gradient."""
    found = []
    for remat in (False, True):
        keras.utils.set_random_seed(0)
        encoder = kb.Encoder(kb.EncoderConfig(**SMALL), remat=remat)
        model = kb.SequenceClassifier(encoder, 2)
        if quantize:
            model.quantize("int8")
        model.enable_lora(2, seed=1)
        model.compile(keras.optimizers.SGD(0.1), model.default_loss(), jit_compile=False)
        for _ in range(2):
            model.train_on_batch(padded_batch(), np.array([0, 1, 0]))
        found.append(model.get_weights())
    assert_equal(found[1], found[0])


def test_the_option_is_loaded(tmp_path):
    kb.save(kb.SequenceClassifier(kb.Encoder(kb.EncoderConfig(**SMALL), remat=True), 2), tmp_path)
    assert not kb.load(tmp_path).encoder.remat  # it is about training, like dtype
    assert kb.load(tmp_path, remat=True).encoder.remat
    assert kb.load(tmp_path, task="encoder", remat=True).remat


MEMORY = """
import re, sys
from pathlib import Path
import keras, numpy as np
import keras_bert as kb

def peak():  # not getrusage, whose peak includes the process that started this one
    return int(re.search("VmHWM:.*?([0-9]+)", Path("/proc/self/status").read_text())[1])

config = kb.EncoderConfig(vocabulary_size=100, hidden_size=128, num_layers=12, num_heads=8,
                          intermediate_size=512, max_positions=256)
model = kb.SequenceClassifier(kb.Encoder(config, remat=sys.argv[1] == "True"), 2)
model.compile("sgd", model.default_loss(), jit_compile=False)
before = peak()
model.train_on_batch({"token_ids": np.ones((8, 256), "int32")}, np.zeros(8, "int32"))
print(peak() - before)
"""


@pytest.mark.sweep  # `test_remat` counts how often layers are called
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory as Linux tells it")
def test_less_memory():
    environment = os.environ | {"MALLOC_TOP_PAD_": "0"}  # so that freed memory is given back
    peaks = []
    for remat in (False, True):
        command = [sys.executable, "-c", MEMORY, str(remat)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout.split()[-1]))
    assert peaks[1] < 0.6 * peaks[0], peaks


ON_JAX = """
import contextlib
import jax, keras, numpy as np
import keras_bert as kb

def trained(config, remat=False, scope=None):
    keras.utils.set_random_seed(0)
    with scope or contextlib.nullcontext():
        model = kb.SequenceClassifier(kb.Encoder(kb.EncoderConfig(**config), remat=remat), 2)
    model.compile(keras.optimizers.SGD(0.1), model.default_loss())
    ids = np.random.default_rng(0).integers(0, 50, (3, 9))
    for _ in range(2):
        model.train_on_batch({"token_ids": ids}, np.array([0, 1, 0]))
    return model.get_weights()

small = dict(vocabulary_size=50, hidden_size=24, num_layers=2, num_heads=3, intermediate_size=32,
             max_positions=16)
for changes in ({}, dict(relative_positions=8, layer_groups=1)):
    expected = trained(small | changes)
    runs = [trained(small | changes, remat=True)]
    if not changes:
        runs.append(trained(small, scope=keras.RematScope("full")))
        names = keras.RematScope("list_of_layers", layer_names=["layer_1"])
        runs.append(trained(small, scope=names))
    for found in runs:
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
"""


@pytest.mark.sweep
def test_on_jax():
    run_on_jax(ON_JAX)
