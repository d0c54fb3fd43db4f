"""Shows a model's attention, a map of its vectors, and the curves of its training.

The names below are imported when they are first used.
"""

import importlib
from typing import Any

_MODULES = {
    "Attention": "attention_page",
    "attention": "attention_page",
    "embedding_map": "maps",
    "plot_confusion": "finetuning",
    "plot_curves": "finetuning",
    "plot_runs": "curves",
    "pretraining_curves": "curves",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_MODULES))
