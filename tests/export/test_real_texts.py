"""Ten thousand lines, hard ones and prose, get Keras' answers from files that take texts."""

import functools
import itertools

import numpy as np
import pytest

import keras_bert as kb
from keras_bert import export
from keras_bert.export.process import running
from keras_bert.text.tokenizer import to_strings
from tests.marks import others_swept

from . import tokenizers
from .conftest import make_model

WRITERS = {
    "": functools.partial(export.saved_model, logits=True),
    ".tflite": functools.partial(export.tflite, text=True),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ending"),
    others_swept(
        itertools.product(
            ("bert-base-uncased", "bert-base-cased", "deberta-v3", "roberta-base"), WRITERS
        ),
        quick=2,
    ),
)
def test_ten_thousand_lines(name, ending, shared_data, tmp_path):
    preprocessor = kb.Preprocessor(tokenizers.real_tokenizer(shared_data, name), 64)
    size = len(preprocessor.vocabulary)
    model = make_model(preprocessor=preprocessor, vocabulary_size=size, hidden_size=16)
    WRITERS[ending](model, tmp_path / f"a{ending}")
    texts, _ = tokenizers.lines(shared_data)
    wrong = []
    with running(tmp_path / f"a{ending}") as process:
        for start in range(0, len(texts), 500):
            part = texts[start : start + 500]
            found = process.run("serving_default", {"text": to_strings(part).numpy()})
            expected = np.asarray(model(preprocessor(part)))
            close_enough = np.abs(found["logits"] - expected).max(1) <= 1e-5
            wrong += [text for text, same in zip(part, close_enough, strict=True) if not same]
    assert wrong == []
