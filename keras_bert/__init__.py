"""BERT for TensorFlow and Keras: pretrain, fine-tune, export.

The names below are imported when they are first used, so that `import keras_bert` costs nothing.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "AddedToken": "text.added_tokens",
    "BytePair": "text.byte_pair.tokenizer",
    "CheckpointError": "errors",
    "Encoder": "layers.encoder",
    "EncoderConfig": "families",
    "InputError": "errors",
    "MaskedLanguageModel": "tasks.masked_lm",
    "MultipleChoice": "tasks.multiple_choice",
    "NextSentencePredictor": "tasks.next_sentence",
    "Preprocessor": "text.preprocessor",
    "PretrainingModel": "tasks.pretraining",
    "ReplacedTokenDetector": "tasks.replaced_token",
    "SentencePiece": "text.sentencepiece.tokenizer",
    "SequenceClassifier": "tasks.classifier",
    "SpanClassifier": "tasks.span_classifier",
    "TextEmbedder": "tasks.embedder",
    "TokenClassifier": "tasks.token_classifier",
    "Vocabulary": "text.vocabulary",
    "WordPiece": "text.wordpiece.tokenizer",
    "from_keras_hub": "checkpoints.keras_hub",
    "learn_vocabulary": "text.wordpiece.training",
    "load": "checkpoints",
    "load_tokenizer": "text.loading",
    "save": "checkpoints",
    "to_keras_hub": "checkpoints.keras_hub",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES))
