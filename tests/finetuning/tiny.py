"""A classifier of a few words, and examples for it."""

import contextlib

import keras
import pytest

import keras_bert as kb
from keras_bert.finetuning import Columns, TextExamples, resume, training

WORDS = ("good", "fine", "bad", "poor", "film", "book", "was", "a", "the", "is")
TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS)

NO_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0}


class Interrupted(BaseException):
    pass


@contextlib.contextmanager
def interrupted(monkeypatch, epoch):
    """Lets a run of `fine_tune` die after it has saved the progress of an epoch."""
    save = resume.save_progress

    def dying(output, model, progress, best):
        save(output, model, progress, best)
        if progress["epoch"] == epoch:
            raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(training, "save_progress", dying)
        with pytest.raises(Interrupted):
            yield


def preprocessor(length=16):
    return kb.Preprocessor(kb.WordPiece(kb.Vocabulary(TOKENS)), length)


def encoder(dtype=None, **changes):
    sizes = {"vocabulary_size": len(TOKENS), "hidden_size": 16, "num_heads": 2, "num_layers": 1}
    others = {"intermediate_size": 32, "max_positions": 32, "initializer_range": 0.2}
    return kb.Encoder(kb.EncoderConfig(**sizes | others | changes), dtype=dtype)


def classifier(encoder_options=None, **arguments):
    keras.utils.set_random_seed(0)  # whatever ran before, the same weights
    arguments = {"labels": ["bad", "good"], "preprocessor": preprocessor(), **arguments}
    return kb.SequenceClassifier(encoder(**encoder_options or {}), **arguments)


def examples(texts, labels, pairs=None, label_columns=("label",)):
    return TextExamples(
        path="memory.csv",
        lines=tuple(range(2, len(texts) + 2)),
        texts=tuple(texts),
        pairs=None if pairs is None else tuple(pairs),
        labels=tuple(labels),
        columns=Columns("text", None if pairs is None else "pair", label_columns),
    )


def opinions(count=64):
    """The label says whether the third word is kind."""
    words = [("bad", "poor", "good", "fine")[i % 4] for i in range(count)]
    texts = [f"the {('film', 'book')[i % 3 % 2]} was {word}" for i, word in enumerate(words)]
    return examples(texts, [("bad", "good")[word in ("good", "fine")] for word in words])
