"""Options of `keras-bert export`: what goes together, and what comes out."""

import os
import signal

import pytest

from keras_bert.atomic import replacing
from keras_bert.errors import InputError
from keras_bert.export._onnx.quantization import _STORES
from keras_bert.export._saved_model import convert as saved_model
from keras_bert.export.formats import DTYPES, FORMATS, QUANTIZATIONS, check_directory
from keras_bert.export.quantization import TOLERANCES
from tests.kills import fork

EXPORT = ["export", "tuned/model", "x"]
ONNX = [*EXPORT, "--format", "onnx"]
CASES = {
    "an option of another format": (
        [*ONNX, "--names", "tfhub"],
        "--names is for saved_model, which --format does not name.",
    ),
    "OpenVINO without an ONNX file": (
        [*EXPORT, "--format", "tflite", "--verify", "a.txt", "--openvino"],
        "--openvino is for ONNX files that take ids; write one.",
    ),
    "OpenVINO without a measurement": (
        [*EXPORT, "--openvino"],
        "--openvino has no effect here; add --verify FILE or --report PAGE.",
    ),
    "a quantization of another format": (
        [*ONNX, "--quantize", "int8", "--representative", "a.txt"],
        "--quantize int8 is for tflite, which --format does not name.",
    ),
    "no quantization of a SavedModel": (
        [*EXPORT, "--format", "saved_model", "--quantize", "float16"],
        "--quantize float16 is for tflite and onnx, which --format does not name.",
    ),
    "texts in a SavedModel": (
        [*EXPORT, "--format", "saved_model", "--text"],
        "--text is for tflite and onnx, which --format does not name.",
    ),
    "layers to keep of nothing": (
        [*EXPORT, "--keep-float", "embeddings"],
        "--keep-float is for quantized files",
    ),
    "layers to keep of files that have none": (
        [*EXPORT, "--quantize", "dynamic", "--keep-float", "embeddings"],
        "--keep-float with --quantize dynamic is only for onnx",
    ),
    "ranges from nothing": (
        [*EXPORT, "--quantize", "int8"],
        "--quantize int8 and --representative FILE belong together",
    ),
    "texts for no ranges": (
        [*EXPORT, "--quantize", "dynamic", "--representative", "a.txt"],
        "--quantize int8 and --representative FILE belong together",
    ),
    "a limit to nothing": (
        [*EXPORT, "--quantize", "dynamic", "--max-drop", "1"],
        "--max-drop is for --validation FILE.",
    ),
    "columns of nothing": ([*EXPORT, "--text-column", "a"], "--text-column is for --validation"),
    "a judge without a case": (
        [*EXPORT, "--validation", "opinions.csv"],
        "--validation has no effect here",
    ),
    "a page about nothing": ([*EXPORT, "--report", "page.md"], "--report needs texts"),
    "a page of another kind": (
        [*EXPORT, "--report", "page.pdf", "--verify", "opinions.csv"],
        "The page is page.pdf, but must end in .md",
    ),
    "a drop below nothing": (
        [*EXPORT, "--validation", "opinions.csv", "--max-drop", "-1"],
        "--max-drop",
    ),
    "too long": ([*EXPORT, "--sequence-length", "65"], "65, but this model takes at most 64"),
    "texts for readers of ids": (
        [*EXPORT, "--text", "--metadata"],
        "leave out `text` or `metadata`",
    ),
    "readers of no such model": (
        ["export", "run/model", "x", "--metadata"],
        "Neither MediaPipe nor the Task Library runs a PretrainingModel",
    ),
    "texts of a task without": (
        ["export", "run/model", "x", "--format", "tflite,onnx", "--text"],
        "An ONNX file cannot take texts for this model",
    ),
    "a batch of no length": ([*EXPORT, "--batch-size", "2"], "give a sequence_length, too"),
    "no such operators": ([*EXPORT, "--opset", "99"], "opset is 99; it can be 14 to 18"),
    "more tokens than there are": (
        ["export", "run/model", "x", "--format", "onnx,saved_model", "--top-k", "9999"],
        "top_k is 9999, but must be from 1 to",
    ),
    "a precision of others": (
        ["export", "run/model", "x", "--format", "onnx", "--dtype", "bfloat16"],
        "--dtype is for saved_model, which --format does not name",
    ),
    "no metric": (
        ["export", "run/model", "x", "--quantize", "dynamic", "--validation", "opinions.csv"],
        "This PretrainingModel has no metric on labeled examples",
    ),
    "options of another task": (
        [*ONNX, "--quantize", "dynamic", "--validation", "opinions.csv", "--comment", "#"],
        "--comment is not for the task classify",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), CASES.values(), ids=CASES)
def test_one_line_and_code_2(arguments, message, run, small):
    result = run(*arguments)
    assert result.code == 2, result.out
    assert len(result.errors) == 1, result.errors
    assert message in result.errors[0]
    assert not (small / "x").exists()


def test_the_command_knows_what_the_library_stores():
    assert FORMATS["onnx"].quantizations == ("none", *_STORES)
    assert tuple(saved_model.TOLERANCES) == DTYPES
    assert FORMATS["tflite"].quantizations == tuple(TOLERANCES) == tuple(QUANTIZATIONS)


@pytest.mark.slow
def test_a_page_and_a_judgement(run, tmp_path):
    out, page = tmp_path / "artifacts", tmp_path / "artifacts" / "report.md"
    options = ["--format", "tflite", "--quantize", "dynamic", "--validation", "opinions.csv"]
    for _ in range(2):
        result = run("export", "tuned/model", out, *options, "--max-drop", "2", "--report", page)
        assert (result.code, result.errors) == (0, [])
    assert {path.name for path in out.iterdir()} == {
        "model-dynamic.tflite",
        "report.md",
        "report.html",
    }
    assert "model-dynamic.tflite: accuracy " in result.out
    assert "on 64 examples" in result.out
    assert "| model-dynamic.tflite | ids |" in page.read_text()


@pytest.mark.slow
def test_bfloat16_is_judged(run, tmp_path):
    options = ["--format", "saved_model,onnx", "--dtype", "bfloat16", "--version", "3"]
    judged = ["--validation", "opinions.csv", "--max-drop", "100", "--verify", "opinions.csv"]
    result = run("export", "tuned/model", tmp_path, *options, *judged)
    assert (result.code, result.errors) == (0, [])
    served = tmp_path / "saved_model-bfloat16" / "3"
    lines = result.out.splitlines()
    assert lines[0].startswith(f"{served}: accuracy ")
    assert lines[1] == str(tmp_path / "model.onnx")
    assert {str(served), "text"} <= set(lines[4].split())


@pytest.mark.slow
def test_versions_names_and_lengths(run, tmp_path):
    options = ["--version", "3", "--names", "huggingface", "--sequence-length", "16"]
    formats = ["--format", "saved_model", "--format", "tflite"]
    result = run("export", "tuned/model", tmp_path, *formats, *options)
    assert (result.code, result.errors) == (0, [])
    served = tmp_path / "saved_model" / "3"
    assert result.out.split() == [str(served), str(tmp_path / "model.tflite")]
    assert b"token_type_ids" in (served / "saved_model.pb").read_bytes()


def test_scratch_of_a_killed_export_is_removed(tmp_path):
    def killed():
        with replacing(tmp_path / "model.tflite") as scratch:
            scratch.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)

    assert fork(killed).code == -signal.SIGKILL
    assert any(tmp_path.iterdir())
    check_directory(tmp_path, [])
    assert not any(tmp_path.iterdir())
    (tmp_path / ".git").mkdir()
    with pytest.raises(InputError, match=r"holds more than artifacts, such as '\.git'"):
        check_directory(tmp_path, [])
