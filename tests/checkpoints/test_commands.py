"""keras-bert convert and inspect."""

import numpy as np
import pytest

import keras_bert as kb
from keras_bert.checkpoints import FORMATS
from keras_bert.checkpoints.variables import named_variables
from keras_bert.cli import convert, main
from tests.checkpoints.test_google import VOCABULARY, google_encoder, randomised

CLASSIFIERS = [format for format in FORMATS if format != "sentence-transformers"]


def test_convert_knows_all_formats():
    assert set(convert.FORMATS) == set(FORMATS)


@pytest.mark.parametrize("format", CLASSIFIERS)
def test_convert(format, tmp_path, capsys):
    model = randomised(kb.SequenceClassifier(google_encoder(), 3))
    kb.save(model, tmp_path / "source")
    arguments = [str(tmp_path / "source"), str(tmp_path / "target"), "--to", format]
    assert main(["convert", *arguments]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'target'}\n"
    loaded = kb.load(tmp_path / "target")
    for name, variable in named_variables(model).items():
        assert np.array_equal(variable, named_variables(loaded)[name])


def test_convert_makes_an_embedder(tmp_path):
    encoder = randomised(google_encoder())
    kb.save(encoder, tmp_path / "source")
    arguments = [str(tmp_path / "source"), str(tmp_path / "target")]
    assert main(["convert", *arguments, "--to", "sentence-transformers", "--task", "embedder"]) == 0
    loaded = kb.load(tmp_path / "target", task="embedder").encoder
    for name, variable in named_variables(encoder).items():
        assert np.array_equal(variable, named_variables(loaded)[name])


def test_convert_refuses_in_one_line(tmp_path, capsys):
    kb.save(kb.TokenClassifier(google_encoder(), 2), tmp_path / "source")
    arguments = [str(tmp_path / "source"), str(tmp_path / "target"), "--to", "google"]
    assert main(["convert", *arguments]) == 2
    assert "Google's BERT has no TokenClassifier" in capsys.readouterr().err
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("format", ["keras", *CLASSIFIERS])
def test_inspect(format, tmp_path, capsys):
    vocabulary = kb.Vocabulary(VOCABULARY)
    encoder = google_encoder(vocabulary_size=len(vocabulary))
    preprocessor = kb.Preprocessor(kb.WordPiece(vocabulary), 16)
    model = kb.SequenceClassifier(encoder, 3, preprocessor=preprocessor)
    if format == "keras":
        model.save(tmp_path / "m.keras")
        path = tmp_path / "m.keras"
    else:
        path = tmp_path / "model"
        kb.save(model, path, format=format)
    assert main(["inspect", str(path)]) == 0
    facts, table = capsys.readouterr().out.split("\n\n")
    facts = dict(line.split("  ", 1) for line in facts.split("\n"))
    facts = {name: value.strip() for name, value in facts.items()}
    assert facts["format"] == format
    assert facts["model"] == "SequenceClassifier"
    assert facts["labels"] == "0, 1, 2"
    assert (facts["hidden_size"], facts["num_layers"]) == ("24", "3")
    assert facts["text format"].startswith(f"WordPiece, {len(vocabulary)} tokens, case lowered")
    rows = [line.split("  ") for line in table.strip().split("\n")]
    rows = {row[0]: [cell.strip() for cell in row[1:] if cell.strip()] for row in rows}
    assert rows["encoder/layer_*/attention/query/kernel"] == ["[24, 24]", "float32", "1,728"]
    assert rows["classifier/logits/bias"] == ["[3]", "float32", "3"]
    assert rows["total"] == [f"{sum(int(np.prod(v.shape)) for v in model.weights):,}"]


def test_inspect_reads_no_weights(tmp_path, capsys):
    kb.save(google_encoder(), tmp_path / "model", format="huggingface")
    path = tmp_path / "model" / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-4000:] = b"\xff" * 4000  # not numbers
    path.write_bytes(bytes(data))
    with pytest.raises(kb.CheckpointError, match="not finite"):
        kb.load(tmp_path / "model")
    assert main(["inspect", str(tmp_path / "model")]) == 0
    assert "Encoder" in capsys.readouterr().out
