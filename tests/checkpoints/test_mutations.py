"""Damaged checkpoints end in our errors, or load as they were; see `mutations.py`."""

import json
import shutil
import time

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import keras_bert as kb
from keras_bert.families import FAMILIES
from tests.checkpoints.mutations import mutate
from tests.checkpoints.test_google import VOCABULARY, google_encoder, leaves, randomised
from tests.layers.test_encoder import padded_batch
from tests.marks import others_swept

SMALL = {"num_layers": 2, "hidden_size": 8, "num_heads": 2, "intermediate_size": 12}
FORMATS = ("huggingface", "sharded", "native", "google")
OTHERS = {"roberta": lambda e: kb.SequenceClassifier(e, 3), "electra": kb.ReplacedTokenDetector}


@pytest.fixture(scope="session")
def undamaged(tmp_path_factory):
    """A checkpoint of each format, and the outputs of its model."""
    checkpoints = {}
    for name, make in OTHERS.items():
        directory = tmp_path_factory.mktemp("undamaged") / name
        model = randomised(make(google_encoder(**SMALL | FAMILIES[name].TRAITS)))
        kb.save(model, directory, format="huggingface")
        checkpoints[name] = (directory, leaves(kb.load(directory)(_inputs(model))))
    for name in FORMATS:
        directory = tmp_path_factory.mktemp("undamaged") / name
        make = kb.PretrainingModel if name == "google" else kb.TokenClassifier
        arguments = {} if name == "google" else {"labels": ["O", "B", "I"]}
        vocabulary = kb.Vocabulary(VOCABULARY)
        encoder = google_encoder(**SMALL, vocabulary_size=len(vocabulary))
        preprocessor = kb.Preprocessor(kb.WordPiece(vocabulary), 16)
        model = randomised(make(encoder, **arguments, preprocessor=preprocessor))
        kb.save(model, directory, format="huggingface" if name == "sharded" else name)
        if name == "sharded":
            _shard(directory)
        checkpoints[name] = (directory, leaves(kb.load(directory)(_inputs(model))))
    return checkpoints


def _inputs(model):
    batch = padded_batch()
    return batch | {"token_ids": batch["token_ids"] % model.config.vocabulary_size}


def _shard(directory):
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    index = {}
    for number, names in enumerate((sorted(tensors)[::2], sorted(tensors)[1::2])):
        shard = f"model-0000{number + 1}-of-00002.safetensors"
        save_file({name: tensors[name] for name in names}, directory / shard)
        index |= dict.fromkeys(names, shard)
    path = directory / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": index}))


@pytest.mark.parametrize("seed", others_swept(range(500), 20))
def test_mutation(seed, undamaged, tmp_path, caplog):
    check(undamaged[FORMATS[seed % len(FORMATS)]], seed, tmp_path, caplog)


@pytest.mark.parametrize("family", OTHERS)
@pytest.mark.parametrize("seed", others_swept(range(100), 4))
def test_mutation_of_another_family(family, seed, undamaged, tmp_path, caplog):
    check(undamaged[family], seed, tmp_path, caplog)


def check(checkpoint, seed, tmp_path, caplog):
    directory, expected = checkpoint
    shutil.copytree(directory, tmp_path / "copy")
    done, may_differ = mutate(np.random.default_rng(seed), tmp_path / "copy")
    start, model, message = time.monotonic(), None, ""
    try:
        model = kb.load(tmp_path / "copy")
    except kb.InputError as error:
        message = str(error)
    if model is None:
        assert len(message) > 20, done
    else:
        outputs = leaves(model(_inputs(model)))
        same = len(outputs) == len(expected) and all(map(np.array_equal, outputs, expected))
        assert same or may_differ or caplog.records, done
    assert time.monotonic() - start < 20, done
