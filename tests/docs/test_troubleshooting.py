"""Each message on the page is what the code says, word for word; "..." stands for anything.

A message is found by its heading, under which the page has it in a block "text".
"""

import contextlib
import io
import json
import logging
import re
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import keras_bert as kb
from keras_bert import export, finetuning
from keras_bert.atomic import SAVED, locked
from keras_bert.checkpoints.files import write_progress
from keras_bert.extras import require
from keras_bert.finetuning import Columns, Recipe, fine_tune, hold_out, read_examples
from keras_bert.finetuning.resume import load_progress
from keras_bert.pretraining.data.tokenization import tokenize
from keras_bert.pretraining.training.trainer import pretrain
from tests.blocks import assert_shown, user_files
from tests.docs.test_blocks import DOCS
from tests.marks import others_slow
from tests.pretraining.run import make_config
from tests.pretraining.text import open_corpus

ENTRY = re.compile(r"^### ([^\n]+)\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MESSAGES = dict(ENTRY.findall((DOCS / "troubleshooting.md").read_text(encoding="utf-8")))
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
RUN = {
    "corpus": "text/*.txt",
    "vocabulary": "vocab.txt",
    "output": "runs/tiny",
    "preset": "bert_tiny",
}
TINY = {"steps": 2, "batch_size": 2, "sequence_length": 16, "validation_ratio": 0}


def damaged_keras_file():
    Path("models").mkdir(exist_ok=True)
    Path("models/cut.keras").write_bytes(b"PK")
    kb.load("models/cut.keras")


def another_backend():
    with mock.patch("keras.config.backend", return_value="jax"):
        fine_tune(None, None)


def two_runs():
    with locked("runs/tiny"):
        pretrain(make_config(RUN | TINY))


def damaged_records():
    tokenizer = kb.load("bert").preprocessor.tokenizer
    tokenize("text/*.txt", tokenizer, "records", workers=1, progress=False)
    Path("records/shard-00000-000.safetensors").unlink()
    open_corpus(["records"], tokenizer)


def damaged_state():
    state = Path("reviews/unfinished")
    state.mkdir(parents=True)
    (state / "weights.safetensors").write_bytes(b"weights")
    write_progress(state, {})
    (state / "weights.safetensors").write_bytes(b"other")
    load_progress(state.parent, None, "")


def quantized():
    model = kb.load("bert", task="classifier", num_labels=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Keras tells which layers stay as they are
        model.quantize("int8")
    kb.save(model, "quantized")


def own_class():
    class MyEncoder(kb.Encoder):
        pass

    kb.save(MyEncoder(kb.load("bert").config), "own")


def other_model():
    Path("models/gpt2").mkdir(parents=True)
    Path("models/gpt2/config.json").write_text('{"model_type": "gpt2"}')
    kb.load("models/gpt2")


def without_family():
    Path("old").mkdir()
    Path("old/config.json").write_text('{"hidden_size": 768}')
    kb.load("old")


def small_embedding():
    kb.save(kb.load("bert"), "small", format="huggingface")
    words = Path("small/vocab.txt").read_text(encoding="utf-8")
    Path("small/vocab.txt").write_text(words + "another\n", encoding="utf-8")
    Path("small/tokenizer.json").unlink()
    kb.load("small")


def without_preprocessor():
    model = kb.load("bert", task="classifier", num_labels=2)
    model.preprocessor = None
    model.predict_text(["a film"])


def another_run():
    Path("runs/tiny").mkdir(parents=True)
    config = make_config(RUN | TINY)
    Path("runs/tiny/pretraining.json").write_text(json.dumps({"config": config.to_dict()}))
    pretrain(make_config(RUN | TINY | {"batch_size": 4}))


def diverged():
    kb.learn_vocabulary("text/*.txt", 500).save("vocab.txt")
    options = RUN | TINY | {"output": "lost", "steps": 60, "steps_per_loop": 1}
    pretrain(make_config(options | {"learning_rate": 10.0, "warmup_steps": 30}), progress=False)


def labels_of(rows, **options):
    Path("rows.csv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    examples = read_examples("rows.csv", **options)
    return examples, finetuning.label_names(examples, "single_label")


def unknown_label():
    examples, _ = labels_of(["text,label", "fine,praise", "bad,prase"])
    finetuning.targets_of(examples, ["praise", "blame"], "single_label")


def not_a_number():
    train, validation = hold_out(read_examples("reviews.csv"), 0.25)
    model = kb.load("bert", task="classifier", labels=["bad", "good"])
    model.set_weights([np.full_like(weights, np.nan) for weights in model.get_weights()])
    fine_tune(model, train, validation, recipe=Recipe(epochs=1), verbose=0)


def other_config():
    Path("models/clone").mkdir(parents=True)
    Path("models/clone/config.json").write_text("{}")
    kb.save(kb.load("bert"), "models/clone", format="huggingface")


def two_formats():
    kb.save(kb.load("bert"), "models/film", format="huggingface")
    kb.save(kb.load("bert"), "models/film")


def interrupted_save():
    kb.save(kb.load("bert"), "models/saved")
    Path("models/saved", SAVED).mkdir()
    kb.load("models/saved")


def mixed():
    export.onnx(kb.load("bert", dtype="mixed_bfloat16"), "mixed.onnx")


CASES = {
    "A missing model": lambda: kb.load("missing_model"),
    "Another kind of model": other_model,
    "A model without a family": without_family,
    "Vocabulary and embedding": small_embedding,
    "An unknown argument": lambda: kb.load("bert", task="classifier", lables=[]),
    "No preprocessor": without_preprocessor,
    "Random weights": lambda: kb.load("bert", task="classifier", num_labels=2),
    "A damaged Keras file": damaged_keras_file,
    "Another backend": another_backend,
    "A directory instead of files": lambda: kb.learn_vocabulary("text", 500),
    "Too few tokens": lambda: kb.learn_vocabulary("text/*.txt", 20),
    "Fewer tokens than asked for": lambda: kb.learn_vocabulary("reviews.csv", 5000),
    "Special tokens": lambda: kb.Vocabulary(["the", "a"]),
    "Texts that are not strings": lambda: kb.load("bert").preprocessor(["a film", None]),
    "Pairs as a list": lambda: kb.load("bert").preprocessor((["a", "b"], ["c"])),
    "Length of a run": lambda: make_config(RUN),
    "An unknown option": lambda: make_config(RUN | {"schedule.stps": 9}),
    "Another run in the directory": another_run,
    "Two runs in one directory": two_runs,
    "Damaged records": damaged_records,
    "Something else in the directory": lambda: pretrain(
        make_config(RUN | TINY | {"output": "text"})
    ),
    "The loss diverges": diverged,
    "A missing column": lambda: read_examples(
        "reviews.csv", columns=Columns("Text", None, ("label",))
    ),
    "No labels": lambda: labels_of(["text,other", "fine,a", "bad,b"]),
    "Only one label": lambda: labels_of(["text,label", "fine,a", "good,a"]),
    "A missing label": lambda: labels_of(["text,label", "fine,a", "bad,"]),
    "An unknown label": unknown_label,
    "A loss that is not a number": not_a_number,
    "A damaged state": damaged_state,
    "A directory of something else": lambda: kb.save(kb.load("bert"), "text"),
    "A config.json of another program": other_config,
    "Two models in one directory": two_formats,
    "An interrupted save": interrupted_save,
    "A quantized model": quantized,
    "An encoder of your own class": own_class,
    "Mixed precision": mixed,
    "Full int8 without typical texts": lambda: export.tflite(
        kb.load("bert"), "i.tflite", quantize="int8"
    ),
    "A missing package": lambda: require("not_there", "vocab", "Learning a vocabulary"),
}
SLOW = ("The loss diverges", "A loss that is not a number")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("user")
    user_files(directory)
    return directory


def test_every_message_has_a_case():
    assert list(MESSAGES) == list(CASES)


@pytest.mark.parametrize("name", others_slow(CASES, quick=CASES.keys() - SLOW))
def test_the_message_is_what_the_code_says(name, files, monkeypatch):
    monkeypatch.chdir(files)
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logging.getLogger("keras_bert").addHandler(handler)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            CASES[name]()
    except kb.InputError as error:
        said = io.StringIO(str(error))
    finally:
        logging.getLogger("keras_bert").removeHandler(handler)
    assert_shown(MESSAGES[name], said.getvalue(), name)
