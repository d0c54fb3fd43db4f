import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

import keras_bert as kb
from keras_bert.options import fields
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.recipes import recipes


def json_lines(result):
    assert (result.code, result.errors) == (0, [])
    return [json.loads(line) for line in result.out.splitlines()]


def test_the_files_are_there(small):
    assert (small / "vocab.txt").read_text().startswith("[PAD]\n[UNK]\n")
    assert {path.name for path in (small / "tuned").iterdir()} == {
        "model",
        "metrics.json",
        "history.jsonl",
    }
    assert kb.load(small / "run/model").preprocessor.sequence_length == 32
    assert kb.load(small / "tuned/model").labels == ("blame", "praise")
    assert kb.load(small / "pairs/model").problem_type == "regression"


@pytest.mark.parametrize(
    ("kind", "size", "files"),
    [("byte_pair", 300, {"vocab.json", "merges.txt"}), ("sentencepiece", 48, {"spiece.model"})],
)
def test_vocabularies_of_other_kinds(run, tmp_path, kind, size, files):
    output = tmp_path / "vocabulary"
    result = run("vocab", "text.txt", "--kind", kind, "--size", size, "--output", output)
    assert (result.code, result.out) == (0, f"{output}: {size} tokens\n")
    assert {path.name for path in output.iterdir()} == files


def test_pretraining_again_finds_nothing_left_to_do(run):
    result = run("pretrain", "pretrain.yaml", "schedule.steps=6")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "Continuing run from step 6."
    assert lines[1].startswith("before on held-out text: mlm_loss ")
    assert lines[-1] == "run/model: the model"


def test_plot_draws_runs_over_one_another(run, small, tmp_path):
    (tmp_path / "other" / "run").mkdir(parents=True)
    log = small / "run" / "log.jsonl"
    (tmp_path / "other" / "run" / "log.jsonl").write_bytes(log.read_bytes())
    picture = tmp_path / "curves.png"
    both = ["run", tmp_path / "other" / "run"]  # of one name
    result = run("plot", *both, "--output", picture)
    assert (result.code, result.out, result.errors) == (0, f"{picture}\n", [])
    assert picture.read_bytes().startswith(b"\x89PNG")
    for measure in ("learning_rate", "gradient_norm", "padding"):
        options = ["--measure", "mlm_loss", "--measure", measure]
        result = run("plot", "run", *options, "--output", tmp_path / f"{measure}.svg")
        assert (result.code, result.errors) == (0, [])
        assert (tmp_path / f"{measure}.svg").read_text().startswith("<?xml")


def test_finetune_says_what_it_found(run, tmp_path):
    files = ["--train", "opinions.csv", "--validation", "opinions.csv", "--test", "opinions.csv"]
    options = ["--epochs", "1", "--learning-rate", "1e-3", "--sequence-length", "16"]
    options += ["--pooling", "mean"]
    output = tmp_path / "out"
    result = run("finetune", "--model", "run/model", *files, "--output", output, *options)
    lines = result.out.splitlines()[-4:]
    found = json.loads((output / "metrics.json").read_text())
    names = {0: "best epoch: 0, the frozen baseline", 1: "best epoch: 1"}
    assert lines[0] == names[found["best_epoch"]]
    assert lines[1].startswith("validation: loss 0.")
    assert lines[2].replace("test", "validation") == lines[1]
    assert lines[3] == f"{output}/model: the model"
    assert found["test"]["accuracy"] <= 1
    assert kb.load(output / "model").pooling == "mean"


def test_the_progress_of_finetune_fits_a_terminal_of_80_columns(small, tmp_path):
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    options = "--train opinions.csv --epochs 3 --batch-size 8 --metric macro_f1"
    command = f"finetune --model run/model --output {tmp_path}/out {options}"
    start = "import sys; from keras_bert.cli import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", start, *command.split()],
        cwd=small,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    written = b""
    with contextlib.suppress(OSError):  # the end of a terminal is an error
        while part := os.read(reader, 4096):
            written += part
    assert process.wait() == 0
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[\w+", "", written.decode()))
    epochs = [line.strip() for line in lines if re.match(r"epoch \d/3: loss", line)]
    assert [line[:9] for line in epochs] == ["epoch 1/3", "epoch 2/3", "epoch 3/3"]
    history = [
        json.loads(line) for line in (tmp_path / "out/history.jsonl").read_text().splitlines()
    ]
    for line, epoch in zip(epochs, history, strict=True):
        loss, found = epoch["loss"], epoch["validation_macro_f1"]
        assert line.endswith(f": loss {loss:.4f}, validation macro_f1 {found:.4f}")
    bars = [line for line in lines if "step/s" in line or "s/step" in line]
    assert "24/24" in bars[-1]
    assert max(map(len, bars + epochs)) <= 80


def test_finetune_says_if_nothing_was_learned(run, tmp_path):
    files = ["--train", "opinions.csv", "--validation", "opinions.csv"]
    options = ["--epochs", "1", "--learning-rate", "1e-9", "--output", tmp_path / "out"]
    (error,) = run("finetune", "--model", "run/model", *files, *options).errors
    assert error.startswith("Nothing learned yet: always predicting ")
    assert "has an accuracy of 0.5000" in error


def test_help_names_all_recipes_and_options_of_a_run(run):
    before, _, after = run("pretrain", "--help").out.partition("Keys of run")
    assert set(recipes()) <= set(re.findall(r"\w+", before))
    assert re.findall(r"^  (\S+)(?: |$)", after, re.MULTILINE) == list(fields(PretrainingConfig))


def test_evaluate_repeats_what_finetune_measured(run, tmp_path):
    files = ["--train", "opinions.csv", "--validation", "opinions.csv", "--epochs", "1"]
    run("finetune", "--model", "run/model", *files, "--output", tmp_path / "out")
    measured = json.loads((tmp_path / "out/metrics.json").read_text())["validation"]
    found = json_lines(run("evaluate", "--model", tmp_path / "out/model", "--data", "opinions.csv"))
    assert found == [pytest.approx({"examples": 64, **measured}, abs=1e-6)]


def test_predict_takes_arguments_or_lines(run):
    texts = ["the film was good", "", "zażółć gęślą 😀", "\udce9 is half a letter", "a\0b"]
    of_arguments = json_lines(run("predict", "--model", "tuned/model", *texts))
    assert [line["label"] in ("blame", "praise") for line in of_arguments] == [True] * 5
    assert of_arguments[2]["text"] == texts[2]
    lines = "".join(f"{text}\n" for text in texts[:3]).encode()
    of_lines = json_lines(run("predict", "--model", "tuned/model", stdin=lines))
    assert [line["text"] for line in of_lines] == texts[:3]
    for one, two in zip(of_arguments, of_lines, strict=False):
        assert one["score"] == pytest.approx(two["score"], abs=1e-6)


def test_predict_pairs(run):
    options = ["--model", "pairs/model", "--pairs", "--batch-size", "1"]
    found = json_lines(run("predict", *options, stdin=b"one\ttwo\nthree\tfour\n"))
    assert [(line["text"], line["pair"]) for line in found] == [("one", "two"), ("three", "four")]
    assert isinstance(found[0]["score"], float)
    failed = run("predict", *options, stdin=b"one and no more\n")
    assert failed.code == 2
    assert "expected two texts with a tab between" in failed.errors[0]


def test_a_directory_of_sentence_transformers_is_an_embedder(run, small, tmp_path):
    embedder = kb.load(small / "run/model", task="embedder", pooling="mean")
    kb.save(embedder, tmp_path / "vectors", format="sentence-transformers")
    (found,) = json_lines(run("predict", "--model", tmp_path / "vectors", "the film"))
    assert found["embedding"] == pytest.approx(embedder.encode(["the film"])[0].tolist(), abs=1e-5)
    done = run("export", tmp_path / "vectors", tmp_path / "out", "--format", "tflite", "--text")
    assert (done.code, done.errors) == (0, [])


def test_fill_mask(run):
    texts = ["the [MASK] was [MASK] .", "nobody said a [MASK]"]
    found = json_lines(run("fill-mask", "--model", "run/model", "--top-k", "3", *texts))
    assert [[len(mask) for mask in line["masks"]] for line in found] == [[3, 3], [3]]
    for mask in (mask for line in found for mask in line["masks"]):
        scores = [candidate["score"] for candidate in mask]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.slow
def test_export_all(run, tmp_path, small):
    out = tmp_path / "artifacts"
    (small / "some.txt").write_text("the film was good\n\nthe book\n")
    result = run("export", "tuned/model", out, "--quantize", "float16", "--verify", "some.txt")
    assert (result.code, result.errors) == (0, [])
    assert {path.name for path in out.iterdir()} == {
        "saved_model",
        "model-float16.tflite",
        "model-float16.onnx",
    }
    assert "2 texts against Keras" in result.out


def test_export_replaces_its_own_artifacts_and_leaves_others_alone(run, tmp_path):
    for _ in range(2):
        result = run("export", "tuned/model", tmp_path, "--format", "tflite")
        assert (result.code, result.errors) == (0, [])
        assert result.out.splitlines()[-1] == str(tmp_path / "model.tflite")
    (tmp_path / "thesis.txt").write_text("mine")
    result = run("export", "tuned/model", tmp_path, "--format", "tflite")
    assert result.code == 2
    assert "holds more than artifacts, such as 'thesis.txt'" in result.errors[0]
