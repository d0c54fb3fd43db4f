"""Small models of every task, with random weights everywhere: zero biases hide mistakes."""

import string

import keras
import numpy as np
import pytest

import keras_bert as kb

TASKS = {
    "classifier": kb.SequenceClassifier,
    "embedder": kb.TextEmbedder,
    "encoder": kb.Encoder,
    "masked_lm": kb.MaskedLanguageModel,
    "multiple_choice": kb.MultipleChoice,
    "next_sentence": kb.NextSentencePredictor,
    "pretraining": kb.PretrainingModel,
    "replaced_token": kb.ReplacedTokenDetector,
    "span_classifier": kb.SpanClassifier,
    "token_classifier": kb.TokenClassifier,
}
LETTERS = string.ascii_lowercase
TOKENS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "good", "bad", "film", "was", "中"),
    *(".", "!", "?", *LETTERS, *("##" + letter for letter in LETTERS)),
)
HARD_TEXTS = [
    "The film was good!",
    "",
    " \t\n ",
    "\x00",
    "bad\x00film",
    "ends with NUL\x00",
    "🎉 was 👩‍👩‍👧 中国",
    "é E\u0301 ﬁ ½ ß İ",
    "x" * 100_000,
    "good film " * 5_000,
    "[CLS] [MASK] [SEP] [PAD]",
    "a lone \ud800 surrogate",
    "\u200b\ufeff\u202e",
]


assert len(TOKENS) == 66


def scramble(model, seed=0):
    """Gives every weight some noise, biases and layer norms too."""
    generator = np.random.default_rng(seed)
    for weight in model.weights:
        value = weight.numpy()
        weight.assign(value + generator.normal(0, 0.05, value.shape))
    return model


def make_model(task="classifier", arguments=None, preprocessor=None, **config):
    defaults = {"vocabulary_size": len(TOKENS), "max_positions": 64, "hidden_size": 64}
    sizes = {"num_heads": 2, "intermediate_size": 96, "num_layers": 1}
    encoder_config = kb.EncoderConfig(**(defaults | sizes | config))
    keras.utils.set_random_seed(0)
    encoder = kb.Encoder(encoder_config)
    if task == "encoder":
        return scramble(encoder)
    if arguments is None:
        arguments = {"num_labels": 3} if task in ("classifier", "token_classifier") else {}
    return scramble(TASKS[task](encoder, preprocessor=preprocessor, **arguments))


def random_ids(batch, length, vocabulary_size=66, seed=1):
    generator = np.random.default_rng(seed)
    lengths = generator.integers(1, length + 1, batch)
    mask = (np.arange(length) < lengths[:, None]).astype("int32")
    return {
        "token_ids": generator.integers(0, vocabulary_size, mask.shape, dtype="int32") * mask,
        "segment_ids": generator.integers(0, 2, mask.shape, dtype="int32") * mask,
        "padding_mask": mask,
    }


@pytest.fixture(scope="session")
def preprocessor():
    return kb.Preprocessor(kb.WordPiece(kb.Vocabulary(TOKENS)), 32, padding="max_length")


@pytest.fixture(scope="session")
def classifier(preprocessor):
    return make_model(arguments={"labels": ["no", "yes", "mäßig"]}, preprocessor=preprocessor)
