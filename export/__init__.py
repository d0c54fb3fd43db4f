"""Exports models to SavedModel, TFLite and ONNX, and checks each artifact in its runtime.

    from keras_bert import export

    export.saved_model(model, "served/1")
    export.tflite(model, "model.tflite", quantize="dynamic")
    export.onnx(model, "model.onnx")
    export.check_accuracy(model, "model-dynamic.onnx", examples, max_drop=0.5, quantize="dynamic")
    print(export.verify(model, ["served/1", "model.tflite", "model.onnx"], texts))

The functions need TensorFlow, so each function is imported only when it is first used.
"""

from typing import TYPE_CHECKING

from keras_bert.export.formats import FORMATS
from keras_bert.extras import lazy_names

if TYPE_CHECKING:
    from keras_bert.export._onnx.convert import onnx
    from keras_bert.export._saved_model.convert import saved_model
    from keras_bert.export._tflite.convert import tflite
    from keras_bert.export._verify.accuracy import check_accuracy
    from keras_bert.export._verify.comparison import verify
    from keras_bert.export._verify.report_page import report

_MODULES = {
    "check_accuracy": "_verify.accuracy",
    "report": "_verify.report_page",
    "verify": "_verify.comparison",
} | {name: f"_{name}.convert" for name in FORMATS}

__all__ = ["check_accuracy", "onnx", "report", "saved_model", "tflite", "verify"]

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
