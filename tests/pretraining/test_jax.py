import pytest

from tests.jax_backend import run_on_jax

pytest.importorskip("jax")

PROGRAM = """
import sys
import jax
import keras
import numpy as np
from keras_bert.config import EncoderConfig
from keras_bert.layers.encoder import Encoder
from keras_bert.pretraining.objectives import losses
from keras_bert.pretraining.objectives.distillation import DistillationModel
from keras_bert.pretraining.objectives.replaced_tokens import ReplacedTokenModel, generator_config
from keras_bert.tasks.masked_lm import MaskedLanguageModel

sizes = dict(vocabulary_size=20, hidden_size=8, num_heads=2, intermediate_size=16, num_layers=2)
config = EncoderConfig(**sizes, max_positions=6, pooler=False)
rng = np.random.default_rng(0)
x = {
    "token_ids": rng.integers(5, 20, (2, 6)).astype("int32"),
    "original_ids": rng.integers(5, 20, (2, 6)).astype("int32"),
    "masked_positions": np.array([[1, 3], [2, 0]], "int32"),
    "noise": rng.random((2, 2)).astype("float32"),
}
labels = rng.integers(5, 20, (2, 2)).astype("int32")
max_predictions_per_seq, tokens = np.ones((2, 2), "float32"), np.ones((2, 6), "float32")


def replaced(outputs):
    mlm = losses.cross_entropy(outputs["mlm_logits"], labels, max_predictions_per_seq)
    rtd = losses.binary_cross_entropy(outputs["rtd_logits"], outputs["replaced"], tokens)
    return mlm[0] + 50 * rtd[0]


def distilled(outputs):
    soft = losses.soft_targets(outputs["logits"], outputs["teacher_logits"], tokens, 2.0)
    cosine = losses.cosine(outputs["states"], outputs["teacher_states"], tokens)
    return soft[0] + cosine[0]


student, teacher = (MaskedLanguageModel(Encoder(config)) for _ in range(2))
models = [
    (ReplacedTokenModel(config, generator_config(config, 0.5, 0.5)), replaced),
    (ReplacedTokenModel(config, generator_config(config, 0.5, 0.5), disentangled=True), replaced),
    (DistillationModel(student, teacher, every_token=True), distilled),
]
for model, loss in models:
    frozen = [v.value for v in model.non_trainable_variables]

    @jax.jit
    def step(values):
        return loss(model.stateless_call(values, frozen, x, training=True)[0])

    value, gradients = jax.value_and_grad(step)([v.value for v in model.trainable_variables])
    assert np.isfinite(value)
    assert all(np.isfinite(g).all() for g in gradients)
    assert any(np.any(g) for g in gradients)
assert "tensorflow" not in sys.modules
"""


@pytest.mark.slow
def test_models_and_losses_run_on_jax_without_tensorflow():
    run_on_jax(PROGRAM)
