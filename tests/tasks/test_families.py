"""A classifier of every family: what Keras does with it changes no number."""

import keras
import numpy as np
import pytest

import keras_bert as kb
from tests.checkpoints.huggingface import FIXTURES
from tests.marks import others_swept

FOLDERS = (
    *("bert-model", "roberta-model", "distilbert-model", "albert-model-groups", "electra-model"),
    *("deberta-model", "deberta-v2-model"),
)
LENGTHS = (8, 5, 1)


def classifier(folder, **options):
    return kb.load(FIXTURES / folder, task="classifier", num_labels=2, **options)


def batch(model):
    generator = np.random.default_rng(0)
    ids = generator.integers(5, model.config.vocabulary_size, (len(LENGTHS), 8))
    mask = np.arange(8) < np.array(LENGTHS)[:, None]
    return {"token_ids": ids.astype("int32"), "padding_mask": mask.astype("int32")}


@pytest.mark.slow
@pytest.mark.parametrize("folder", others_swept(FOLDERS, quick=("bert-model", "deberta-v2-model")))
def test_compiled_training(folder):
    """The weights after a step are the same with XLA as without."""
    models = [classifier(folder), classifier(folder)]
    models[1].set_weights(models[0].get_weights())
    inputs, labels = batch(models[0]), np.array([0, 1, 0])
    for model, jit_compile in zip(models, (False, True), strict=True):
        for layer in model._flatten_layers():
            if isinstance(layer, keras.layers.Dropout):
                layer.rate = 0.0
        optimizer = keras.optimizers.SGD(0.1)
        model.compile(optimizer, model.default_loss(), jit_compile=jit_compile)
        model.fit(inputs, labels, verbose=0)
    for one, two in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-6)
