"""README.md, "Bring your BERT": a directory of Hugging Face's, fine-tuned and exported."""

import csv
import logging

import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert.cli import main
from tests.checkpoints.test_google import VOCABULARY

COMMANDS = [
    "finetune --task classify --model bert --train reviews.csv --output mine --epochs 1",
    "export mine/model artifacts --format saved_model",
    "convert mine/model for-transformers --to huggingface",
]


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """A BERT as transformers saves it, and a table of texts and labels."""
    words = ["good", "bad", "film", "very", "a"]
    vocabulary = kb.Vocabulary([*VOCABULARY[:-1], *(w for w in words if w not in VOCABULARY)])
    config = kb.EncoderConfig.preset("bert_tiny", vocabulary_size=len(vocabulary), num_layers=1)
    preprocessor = kb.Preprocessor(kb.WordPiece(vocabulary), 16)
    model = kb.PretrainingModel(kb.Encoder(config), preprocessor=preprocessor)
    kb.save(model, tmp_path / "bert", format="huggingface")
    with open(tmp_path / "reviews.csv", "w", newline="") as file:
        rows = [
            (f"a {'very ' * (n % 4)}{kind} film", kind) for n in range(40) for kind in words[:2]
        ]
        csv.writer(file).writerows([("text", "label"), *rows])
    monkeypatch.chdir(tmp_path)
    logger = logging.getLogger("keras_bert.checkpoints")  # which finetune makes less talkative
    level = logger.level
    yield tmp_path
    logger.setLevel(level)


def test_three_commands(directory):
    for command in COMMANDS:
        assert main(command.split()) == 0, command
    texts = ["a good film", "a very bad film"]
    classifier = kb.load("mine/model")
    expected = np.asarray(classifier(classifier.preprocessor(texts)))
    again = kb.load("for-transformers")
    np.testing.assert_array_equal(again(again.preprocessor(texts)), expected)
    assert again.labels == classifier.labels == ("bad", "good")
    served = tf.saved_model.load("artifacts/saved_model").signatures["serving_default"]
    assert served(text=tf.constant(texts))["scores"].shape == (2, 2)
