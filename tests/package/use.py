"""Uses an installed wheel, in an environment without the repository."""

import sys
from pathlib import Path

import numpy as np

import keras_bert as kb
from keras_bert.pretraining.recipes import read_config

assert Path(kb.__file__).is_relative_to(sys.prefix), kb.__file__

words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]
preprocessor = kb.Preprocessor(kb.WordPiece(kb.Vocabulary(words)), sequence_length=8)
config = kb.EncoderConfig.preset("bert_tiny", vocabulary_size=len(words))
model = kb.SequenceClassifier(kb.Encoder(config), labels=["no", "yes"], preprocessor=preprocessor)
before = model.predict_text(["Good", "bad"])
for format in ("native", "huggingface"):
    kb.save(model, format, format)
    after = kb.load(format).predict_text(["Good", "bad"])
    assert [x["label"] for x in after] == [x["label"] for x in before]
    np.testing.assert_allclose([x["score"] for x in after], [x["score"] for x in before], 1e-6)
recipe = read_config("fast", ["data.corpus=c", "data.vocabulary=v", "output=o"])
steps = recipe.schedule.steps
print(f"keras_bert {kb.__version__}: saved, loaded and the same; recipe of {steps} steps")
