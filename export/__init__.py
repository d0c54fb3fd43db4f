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
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_bert.export.accept import accept
    from keras_bert.export.onnx import onnx
    from keras_bert.export.report import report
    from keras_bert.export.saved_model import saved_model
    from keras_bert.export.tflite import tflite
    from keras_bert.export.verify import verify

__all__ = ["accept", "onnx", "report", "saved_model", "tflite", "verify"]


class _Package(types.ModuleType):
    """Each function stands in a module of its own name; `export.onnx` is always the function.

    Python binds a submodule to its package when it is first imported, which would put the
    module in the function's place.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name in __all__ and isinstance(value, types.ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    importlib.import_module(f"{__name__}.{name}")
    return globals()[name]


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
