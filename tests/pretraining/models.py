"""Small models of every objective and synthetic examples, on any backend of Keras."""

from types import SimpleNamespace

import numpy as np

from keras_bert.config import EncoderConfig
from keras_bert.layers.encoder import Encoder
from keras_bert.pretraining.objectives.distillation import DistillationModel
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.tasks.masked_lm import MaskedLanguageModel

BATCH, LENGTH, MAX_PREDICTIONS, SIZE = 8, 12, 3, 30
COMPARED = ("mlm+nsp", "rtd", "rtd+gdes", "distillation")


def config(dropout=0.0):
    return EncoderConfig(
        vocabulary_size=SIZE,
        hidden_size=16,
        num_layers=2,
        num_heads=2,
        intermediate_size=32,
        max_positions=LENGTH,
        hidden_dropout=dropout,
        attention_dropout=dropout,
    )


def make_model(objective, dropout=0.0):
    if OBJECTIVES[objective].teacher:
        teacher, student = (MaskedLanguageModel(Encoder(config(dropout))) for _ in range(2))
        return DistillationModel(student, teacher, every_token=objective == "distillation")
    run = SimpleNamespace(
        objective=SimpleNamespace(generator_size=0.5, generator_depth=None),
        model=SimpleNamespace(init_checkpoint=None),
    )
    return OBJECTIVES[objective].model(config(dropout), run, None, None)


def batches(number, seed=0, objective="mlm+nsp"):
    """Global batches `(x, y, w)`; the numbers of masked tokens differ much between rows."""
    rng = np.random.default_rng(seed)
    loss_terms = [term for term in OBJECTIVES[objective].loss_terms if term.key]
    for _ in range(number):
        weights = np.arange(MAX_PREDICTIONS) < rng.integers(0, MAX_PREDICTIONS + 1, (BATCH, 1))
        positions = (
            1
            + rng.permuted(np.tile(np.arange(LENGTH - 1), (BATCH, 1)), axis=1)[:, :MAX_PREDICTIONS]
        )
        length = rng.integers(5, LENGTH + 1, (BATCH, 1)) if len(loss_terms) > 2 else LENGTH
        x = {
            # Few different ids, so that many repeat.
            "token_ids": rng.integers(5, 9, (BATCH, LENGTH)).astype("int32"),
            "segment_ids": rng.integers(0, 2, (BATCH, LENGTH)).astype("int32"),
            "padding_mask": (np.arange(LENGTH) < length).astype("int32")
            * np.ones((BATCH, 1), "int32"),
            "masked_positions": positions.astype("int32"),
        }
        labels = {
            "predictions": rng.integers(5, SIZE, (BATCH, MAX_PREDICTIONS)).astype("int32"),
            "examples": rng.integers(0, 2, BATCH).astype("int32"),
        }
        if OBJECTIVES[objective].samples:
            x["original_ids"] = rng.integers(5, 9, (BATCH, LENGTH)).astype("int32")
            x["noise"] = rng.random((BATCH, MAX_PREDICTIONS)).astype("float32")
        all_weights = {
            "predictions": weights.astype("float32"),
            "tokens": x["padding_mask"].astype("float32"),
            "examples": np.ones(BATCH, "float32"),
        }
        y = {term.key: labels[term.over] for term in loss_terms if term.labeled}
        yield x, y, {term.key: all_weights[term.over] for term in loss_terms}
