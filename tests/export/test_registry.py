"""The registry of formats: what an entry says is what its package has."""

import inspect

import pytest

from keras_bert import InputError, export
from keras_bert.export.formats import FORMATS, ONNX, SAVED_MODEL, TFLITE, format_of, formats_named


@pytest.mark.parametrize("format", FORMATS.values(), ids=FORMATS)
def test_an_entry_is_what_its_package_has(format):
    model, _, *arguments = inspect.signature(getattr(export, format.name)).parameters
    assert [*inspect.signature(format._convert.check_arguments).parameters] == [model, *arguments]
    assert {option.name for option in format.options} <= set(arguments)
    assert (len(format.quantizations) > 1) == ("quantize" in arguments)
    assert format.runtime.is_file()


def test_an_artifact_is_recognized(tmp_path):
    for name in ("served/saved_model.pb", "a.tflite", "b.onnx", "c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\0")
    assert format_of(tmp_path / "served") is SAVED_MODEL
    assert format_of(tmp_path / "a.tflite") is TFLITE
    assert format_of(tmp_path / "b.onnx") is ONNX
    for name in ("c.txt", "missing.onnx", "."):
        with pytest.raises(InputError, match=r"expected a directory with saved_model.pb, or a fil"):
            format_of(tmp_path / name)


def test_a_format_takes_its_own_options():
    given = {"keep_float": ("embeddings",), "text": True, "sequence_length": 8, "version": 3}
    assert SAVED_MODEL.arguments("int8", given) == {"version": 3}
    assert TFLITE.arguments("dynamic", given) == {
        "quantize": "dynamic",
        "text": True,
        "sequence_length": 8,
    }
    assert ONNX.arguments("dynamic", given) == {
        "quantize": "dynamic",
        "keep_float": ("embeddings",),
        "text": True,
    }
    assert ONNX.arguments("int8", given) == {"text": True}


def test_names_of_files():
    assert SAVED_MODEL.file_name({"version": 3}) == "saved_model"
    assert TFLITE.file_name({"quantize": "int8"}) == "model-int8.tflite"
    assert ONNX.file_name({"quantize": "dynamic", "text": True}) == "model-text-dynamic.onnx"


def test_formats_by_name():
    assert formats_named(["onnx", "tflite", "onnx"]) == [ONNX, TFLITE]
    with pytest.raises(InputError, match="There is no format 'coreml'"):
        formats_named(["coreml"])
