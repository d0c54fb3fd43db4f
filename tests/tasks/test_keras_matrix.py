"""Each cell of the matrix of `keras_matrix`, and what subclasses need beside it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert.families import FAMILIES as ALL_FAMILIES
from tests.jax_backend import run_on_jax
from tests.tasks import keras_matrix as matrix
from tests.tasks.keras_matrix import CHECKS, FAMILIES, TASKS, check_equal, ids, make, saved

OF_ENCODERS = ("mixed_bfloat16", "mixed_float16", "bfloat16", "int8", "remat")
"""Checks of what encoders do, which tasks hardly differ in."""
WITH_ALL_CHECKS = ("classifier", "token_classifier", "multiple_choice")


def cells():
    """Yields one family with all tasks, and for `make test-sweep` one task with all families.

    The program `keras_matrix` has all cells.
    """
    others = [("classifier", family) for family in FAMILIES if family != "bert"]
    for task, family in [*((task, "bert") for task in TASKS), *others]:
        for check in CHECKS:
            quick = family == "bert" and (check not in OF_ENCODERS or task in WITH_ALL_CHECKS)
            yield pytest.param(check, task, family, marks=() if quick else pytest.mark.sweep)


@pytest.mark.parametrize(("check", "task", "family"), cells())
def test_cell(check, task, family, tmp_path):
    CHECKS[check](task, family, tmp_path)


def test_all_families_are_there():
    assert set(FAMILIES) == set(ALL_FAMILIES)


def test_a_failing_check_is_told(monkeypatch, capsys):
    monkeypatch.setattr(matrix, "CHECKS", {"good": lambda *cell: None, "bad": lambda *cell: 1 / 0})
    assert matrix.main(["--families", "bert", "--tasks", "encoder"]) == 1
    line = capsys.readouterr().out.splitlines()[2]
    assert line == "| bert | encoder | yes | **ZeroDivisionError: division by zero** |"


@keras.saving.register_keras_serializable(package="tests")
class ScaledEncoder(kb.Encoder):
    """An encoder with an argument, a layer and an output of its own."""

    def __init__(self, config, units=3, **kwargs):
        super().__init__(config, **kwargs)
        self.units = units
        self.extra = self.dense(config.hidden_size, units, "extra")

    def get_config(self):
        return {**super().get_config(), "units": self.units}

    def call(self, inputs, **kwargs):
        outputs = super().call(inputs, **kwargs)
        return {**outputs, "extra": self.extra(outputs["sequence_output"])}


@pytest.mark.parametrize("quantized", [False, True])
def test_a_subclass_of_the_encoder(quantized, tmp_path):
    """By itself, and in a task."""
    encoder = ScaledEncoder(make("encoder", "bert").config, units=5, remat=True)
    classifier = kb.SequenceClassifier(encoder, 2)
    if quantized:
        classifier.quantize("int8")
    for model in (encoder, classifier):
        loaded = saved(model, tmp_path)
        check_equal(loaded(ids("encoder")), model(ids("encoder")))
    assert type(loaded.encoder) is ScaledEncoder
    assert (loaded.encoder.units, loaded.encoder.remat) == (5, True)
    assert (loaded.encoder.extra.quantization_mode == "int8") == quantized


def test_chosen_layers_of_int4(tmp_path):
    """Other layers stay float, and other modes than int8 round trip, too."""
    model = make("classifier", "bert")
    model.quantize("int4", filters=["query", "logits"])
    loaded = saved(model, tmp_path)
    check_equal(loaded(ids("classifier")), model(ids("classifier")))
    attention = loaded.encoder.encoder_layers[0].attention
    assert attention.query.quantization_mode == loaded.head.logits.quantization_mode == "int4"
    assert attention.key.quantization_mode is None


def test_export_after_fit_and_with_a_signature(tmp_path):
    model, inputs = make("classifier", "bert"), ids("classifier")
    model.compile("adam", model.default_loss())
    model.fit({"token_ids": inputs["token_ids"]}, np.array([0, 1, 0]), verbose=0)
    model.export(tmp_path / "all", verbose=False)
    artifact = tf.saved_model.load(str(tmp_path / "all"))
    check_equal(artifact.serve(inputs), model(inputs), 1e-6)
    signature = [{"token_ids": keras.InputSpec(shape=(None, 9), dtype="int32")}]
    model.export(tmp_path / "given", verbose=False, input_signature=signature)
    artifact = tf.saved_model.load(str(tmp_path / "given"))
    alone = {"token_ids": inputs["token_ids"]}
    check_equal(artifact.serve(alone), model(alone), 1e-6)


ON_JAX = """
import sys
import keras, numpy as np
import tensorflow as tf
import keras_bert as kb

config = kb.EncoderConfig(vocabulary_size=50, hidden_size=24, num_layers=1, num_heads=3,
                          intermediate_size=32, max_positions=16, activation="relu")
for task, shapes in ((kb.SequenceClassifier, [(2, 7), (3, 16)]), (kb.MultipleChoice, [(2, 3, 7)])):
    arguments = {"num_labels": 2} if task is kb.SequenceClassifier else {}
    model = task(kb.Encoder(config), **arguments)
    path = sys.argv[1] + "/" + model.name
    model.export(path, verbose=False)
    artifact = tf.saved_model.load(path)
    for shape in shapes:
        ids = np.random.default_rng(0).integers(0, 50, shape).astype("int32")
        inputs = {"token_ids": ids, "segment_ids": ids % 2, "padding_mask": np.ones_like(ids)}
        np.testing.assert_allclose(artifact.serve(inputs), model(inputs), atol=1e-6)
"""


@pytest.mark.slow
def test_export_on_jax(tmp_path):
    run_on_jax(ON_JAX, str(tmp_path))
