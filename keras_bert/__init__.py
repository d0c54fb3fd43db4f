"""BERT for TensorFlow and Keras: pretrain, fine-tune, export.

The names below are imported when they are first used, so that `import keras_bert` is fast.
"""

from keras_bert.extras import lazy_names
from keras_bert.tasks.registry import TASKS

__version__ = "0.1.0"

_MODULES = {
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
    "zero_shot": "tasks.classifier",
} | {task.class_name: task.module for task in TASKS.values()}

__all__ = sorted(_MODULES)

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
