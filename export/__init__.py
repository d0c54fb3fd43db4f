"""Models leave for other runtimes: SavedModel, TFLite, ONNX, each checked before it is named.

    from keras_bert import export

    export.saved_model(model, "served/1")
    export.tflite(model, "model.tflite", quantize="dynamic")
    export.onnx(model, "model.onnx")
    export.accept(model, "model-dynamic.onnx", examples, max_drop=0.5, quantize="dynamic")
    print(export.verify(model, ["served/1", "model.tflite", "model.onnx"], texts))

The functions are imported when they are first used; they bring TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_bert.export._onnx.convert import onnx
    from keras_bert.export._saved_model.convert import saved_model
    from keras_bert.export._tflite.convert import tflite
    from keras_bert.export._verify.accuracy import accept
    from keras_bert.export._verify.comparison import verify
    from keras_bert.export._verify.report_page import report

__all__ = ["accept", "onnx", "report", "saved_model", "tflite", "verify"]

_MODULES = {
    "accept": "_verify.accuracy",
    "onnx": "_onnx.convert",
    "report": "_verify.report_page",
    "saved_model": "_saved_model.convert",
    "tflite": "_tflite.convert",
    "verify": "_verify.comparison",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
