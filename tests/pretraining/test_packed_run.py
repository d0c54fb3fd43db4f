import numpy as np
import pytest
import tensorflow as tf

from keras_bert.pretraining.data.input_pipeline import Examples
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.resolve import encoder_config
from keras_bert.pretraining.training.inputs import make_examples, make_preprocessor
from keras_bert.pretraining.training.trainer import pretrain
from tests.pretraining.run import config


@pytest.fixture(scope="module")
def run(text_files, tmp_path_factory):
    output = tmp_path_factory.mktemp("packed")
    options = {"objective": "rtd", "steps": 4, "sequence_length": 128, "generator_size": 0.5}
    options["encoder"] = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_positions": 128}
    return config(text_files, output, packed=True, **options)


def test_a_packed_run_learns(run):
    results = pretrain(run, progress=False)
    assert results["finished"]
    assert np.isfinite(results["after"]["rtd_loss"])
    assert results["after"]["loss"] < results["before"]["loss"]


def test_packed_documents_have_the_losses_that_each_has_alone(run):
    """Guessing the same masks in the same documents costs the same in one row or in many."""
    preprocessor = make_preprocessor(run)
    examples = make_examples(run, preprocessor)[0].examples
    model = OBJECTIVES["mlm"].model(
        encoder_config(run, len(preprocessor.vocabulary)), run, preprocessor, None
    )
    x, y, w = next(iter(single_head(examples).dataset(8)))
    logits = model(x, training=False)
    losses = tf.keras.losses.sparse_categorical_crossentropy(y, logits, from_logits=True) * w
    documents, ids = x["document_ids"].numpy(), x["token_ids"].numpy()
    positions, weights = x["masked_positions"].numpy(), w.numpy()
    seen = 0
    for row in range(8):
        for document in range(1, documents[row].max() + 1):
            inside = np.flatnonzero(documents[row] == document)
            predictions = np.flatnonzero(np.isin(positions[row], inside) & (weights[row] > 0))
            if not len(predictions):
                continue
            alone = model(
                {
                    "token_ids": ids[row : row + 1, inside],
                    "masked_positions": positions[row : row + 1, predictions] - inside[0],
                }
            )
            labels = y.numpy()[row : row + 1, predictions]
            expected = tf.keras.losses.sparse_categorical_crossentropy(labels, alone, True)
            np.testing.assert_allclose(losses.numpy()[row, predictions], expected[0], atol=1e-5)
            seen += len(predictions)
    assert seen == weights.sum() > 50


def single_head(examples):
    return Examples(**{**vars(examples), "objective": OBJECTIVES["mlm"]})
