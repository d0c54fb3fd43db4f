"""BERT for TensorFlow and Keras: pretrain, fine-tune, export.

The names below are imported when they are first used, so that `import keras_bert` costs nothing.
"""

import importlib
from typing import Any

from keras_bert.tasks.registry import TASKS

__version__ = "0.1.0"

_HOMES = {
    "AddedToken": "text.added_tokens",
    "BytePair": "text.byte_pair.tokenizer",
    "CheckpointError": "errors",
    "EncoderConfig": "families",
    "InputError": "errors",
    "KerasBertError": "errors",
    "Preprocessor": "text.preprocessor",
    "SentencePiece": "text.sentencepiece.tokenizer",
    "StorageError": "errors",
    "Vocabulary": "text.vocabulary",
    "WorkerLostError": "errors",
    "WordPiece": "text.wordpiece.tokenizer",
    "from_keras_hub": "checkpoints.keras_hub",
    "learn_vocabulary": "text.wordpiece.training",
    "load": "checkpoints",
    "load_tokenizer": "text.tokenizer",
    "save": "checkpoints",
    "to_keras_hub": "checkpoints.keras_hub",
} | {task.class_name: task.module for task in TASKS.values()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES))
