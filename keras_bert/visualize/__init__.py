"""To see what a model does: its attention, the map of its vectors, the curves of its training.

The names below are imported when they are first used.
"""

import importlib
from typing import Any

_HOMES = {
    "Attention": "visualize.attention_page",
    "attention": "visualize.attention_page",
    "embedding_map": "visualize.maps",
    "pretraining_curves": "pretraining.curves",
}

__all__ = ["Attention", "attention", "embedding_map", "pretraining_curves"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"keras_bert.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES))
