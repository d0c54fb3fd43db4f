"""Converts KerasHub's BERT: models in memory and preset directories.

KerasHub is an optional dependency. KerasHub's encoder has the tanh approximation of GELU and a
LayerNorm epsilon of 1e-12. KerasHub's masked language model head has the exact GELU and an epsilon
of 1e-5.
"""

import functools
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.atomic import replacing
from keras_bert.checkpoints.contents import Contents, check_expressible
from keras_bert.checkpoints.directories import replaceable_files
from keras_bert.checkpoints.files import read_json
from keras_bert.checkpoints.mapping import KERAS_KINDS, SAME, links, renamed_weights
from keras_bert.checkpoints.variables import task_name
from keras_bert.errors import CheckpointError, InputError
from keras_bert.extras import require
from keras_bert.families import bert
from keras_bert.layers.encoder import Encoder

logger = logging.getLogger(__name__)

KINDS = KERAS_KINDS | {"table": (("", "/embeddings", SAME),)}

_FIELDS = {
    "vocabulary_size": "vocabulary_size",
    "hidden_size": "hidden_dim",
    "num_layers": "num_layers",
    "num_heads": "num_heads",
    "intermediate_size": "intermediate_dim",
    "max_positions": "max_sequence_length",
    "num_segments": "num_segments",
    "hidden_dropout": "dropout",
}
_ENCODER = {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-12}
_MASKED_LM = {"activation": "gelu", "layer_norm_epsilon": 1e-5}
_CLASSES = {
    "encoder": "BertBackbone",
    "classifier": "BertTextClassifier",
    "masked_lm": "BertMaskedLM",
}
_PREPROCESSORS = {
    "encoder": "BertTextClassifierPreprocessor",
    "classifier": "BertTextClassifierPreprocessor",
    "masked_lm": "BertMaskedLMPreprocessor",
}
_WEIGHTS = ("model.weights.h5", "model.weights.json")
_CONFIGURATION, _TASK, _TOKENIZER = "config.json", "task.json", "tokenizer.json"
_MARKER = "metadata.json"
_EARLIER = functools.partial(
    replaceable_files,
    marker=_MARKER,
    is_known=lambda values: isinstance(values, dict) and "keras_version" in values,
    files=(
        _MARKER,
        _CONFIGURATION,
        _TASK,
        _TOKENIZER,
        "preprocessor.json",
        *_WEIGHTS,
        "task.weights.h5",
        "assets/tokenizer/vocabulary.txt",
    ),
)


def from_keras_hub(model: Any, task: str | None = None, **options: Any) -> keras.Model:
    """Makes a model with the weights of a `BertBackbone`, `BertTextClassifier` or `BertMaskedLM`.

    Args:
        model: KerasHub's model. Its preprocessor is converted, too.
        task: as in `keras_bert.load`.
        **options: as in `keras_bert.load`, for instance `labels`, which KerasHub does not keep.

    Raises:
        InputError: if the model has another class, or this package cannot express it.

    Example:
        >>> backbone = keras_hub.models.BertBackbone.from_preset("bert_base_en_uncased")
        >>> encoder = keras_bert.from_keras_hub(backbone)
    """
    return _open(model, Path(type(model).__name__), None).load(task, **options)


def to_keras_hub(model: keras.Model) -> Any:
    """Makes KerasHub's model from an `Encoder`, a classifier or a masked language model.

    KerasHub does not keep the labels' names. It has one dropout rate for hidden states and for
    attention.

    Raises:
        InputError: if KerasHub cannot express the model, or is not installed.

    Example:
        >>> config = keras_bert.EncoderConfig.preset("bert_tiny", activation="gelu_tanh")
        >>> backbone = keras_bert.to_keras_hub(keras_bert.Encoder(config))
    """
    models = _models()
    head = {"tied": (True,)} | {name: (value,) for name, value in _MASKED_LM.items()}
    encoder = {name: (value,) for name, value in _ENCODER.items()}
    check_expressible(model, "KerasHub's BERT", bert, _FIELDS, _CLASSES, encoder, head)
    task, config = task_name(model), model.config
    if config.attention_dropout != config.hidden_dropout:
        logger.warning("KerasHub uses the dropout rate of the hidden states for attention, too.")
    policy = (model if task == "encoder" else model.encoder).dtype_policy
    live = models.BertBackbone(
        **{theirs: getattr(config, ours) for ours, theirs in _FIELDS.items()}, dtype=policy
    )
    if task != "encoder":
        arguments = {"preprocessor": _their_preprocessor(model.preprocessor, task)}
        if task == "classifier":
            arguments |= {"num_classes": model.num_labels, "dropout": model.dropout}
        live = getattr(models, _CLASSES[task])(live, **arguments)
    tensors = renamed_weights(model, links(bert.KERAS_HUB, KINDS, config.num_layers))
    for variable in live.weights:
        if variable.path in tensors:
            variable.assign(tensors[variable.path])
        else:
            logger.warning("The model has no %s; KerasHub initializes it at random.", variable.path)
    return live


def is_keras_hub(directory: Path) -> bool:
    """Returns whether a directory looks like a preset of KerasHub."""
    return any((directory / name).is_file() for name in _WEIGHTS)


def open_keras_hub(directory: Path) -> Contents:
    """Returns the contents of a KerasHub preset.

    Raises:
        CheckpointError: if a file is missing or damaged, or the preset is not for BERT.
        InputError: if KerasHub is not installed.
    """
    path = directory / (_TASK if (directory / _TASK).exists() else _CONFIGURATION)
    name = str(read_json(path).get("class_name"))
    if name not in _CLASSES.values():
        raise CheckpointError(
            f"{path}: class_name {name!r} is not supported; "
            f"supported are {', '.join(_CLASSES.values())}."
        )
    models = _models()
    try:
        model = getattr(models, name).from_preset(os.fspath(directory))
        preprocessor = None
        if name == _CLASSES["encoder"] and (directory / _TOKENIZER).exists():
            kind = getattr(models, _PREPROCESSORS["encoder"])
            preprocessor = kind.from_preset(os.fspath(directory))
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{directory}: KerasHub cannot open this: {error}") from error
    return _open(model, directory, preprocessor)


def save_keras_hub(model: keras.Model, directory: str | os.PathLike) -> None:
    """Writes a preset, complete or not at all.

    Raises:
        InputError: if KerasHub cannot express the model or is not installed, or the directory
            holds something other than a model.
        StorageError: if a file cannot be written.
    """
    live = to_keras_hub(model)
    with replacing(directory, owned=_EARLIER) as path:
        live.save_to_preset(os.fspath(path))
        preprocessor = _their_preprocessor(model.preprocessor, "encoder")
        if isinstance(model, Encoder) and preprocessor is not None:
            preprocessor.save_to_preset(os.fspath(path))


class _LiveModel:
    """Weights of a model in memory by their paths."""

    def __init__(self, model: Any):
        self._name = type(model).__name__
        self._weights = {variable.path: variable for variable in model.weights}

    def names(self) -> Iterable[str]:
        """Returns the paths of all weights."""
        return self._weights.keys()

    def read(self, name: str) -> np.ndarray:
        """Returns a weight by its path."""
        return keras.ops.convert_to_numpy(self._weights[name])

    def where(self, name: str) -> str:
        """Returns the class of the model."""
        return f"The {self._name}"


def _open(model: Any, place: Path, preprocessor: Any) -> Contents:
    models = _models()
    tasks = [task for task, name in _CLASSES.items() if isinstance(model, getattr(models, name))]
    if not tasks:
        raise InputError(
            f"A {type(model).__name__} is not one of KerasHub's {', '.join(_CLASSES.values())}."
        )
    task, arguments = tasks[0], {}
    backbone = model if task == "encoder" else model.backbone
    fields = {ours: getattr(backbone, theirs) for ours, theirs in _FIELDS.items()}
    if task == "classifier":
        if model.activation is not keras.activations.linear:
            raise InputError(
                "This BertTextClassifier has an activation on its logits, but a SequenceClassifier "
                "does not; make the BertTextClassifier with activation=None."
            )
        arguments = {"num_labels": model.num_classes, "dropout": model.dropout}
    elif task == "masked_lm":
        arguments = dict(_MASKED_LM)
    preprocessor = preprocessor or getattr(model, "preprocessor", None)
    return Contents(
        place=place,
        task=task,
        encoder=fields | _ENCODER | {"attention_dropout": fields["hidden_dropout"]},
        arguments=arguments,
        preprocessor=_our_preprocessor(preprocessor),
        source=_LiveModel(model),
        table=links(bert.KERAS_HUB, KINDS, backbone.num_layers + 1),
    )


def _our_preprocessor(theirs: Any) -> Any:
    if theirs is None:
        return None
    from keras_bert.text.preprocessor import Preprocessor  # imports TensorFlow
    from keras_bert.text.vocabulary import Vocabulary
    from keras_bert.text.wordpiece.tokenizer import WordPiece

    tokenizer = theirs.tokenizer
    wordpiece = WordPiece(
        Vocabulary(tokenizer.get_vocabulary(), unknown=tokenizer.oov_token),
        lowercase=tokenizer.lowercase,
        strip_accents=tokenizer.strip_accents,
        split_cjk=tokenizer.split_on_cjk,
    )
    return Preprocessor(wordpiece, sequence_length=theirs.sequence_length)


def _their_preprocessor(ours: Any, task: str) -> Any:
    if ours is None:
        return None
    if ours.tokenizer.kind != "wordpiece":
        raise InputError(
            f"KerasHub's BERT splits text by WordPiece, not by {type(ours.tokenizer).__name__}; "
            "set model.preprocessor = None."
        )
    vocabulary = ours.vocabulary
    from keras_bert.text.vocabulary import Vocabulary  # imports TensorFlow

    plain = Vocabulary(vocabulary.tokens, unknown=vocabulary.unknown).special_tokens
    if vocabulary.special_tokens != plain:
        raise InputError(
            "KerasHub's BertTokenizer has the special tokens [PAD], [CLS], [SEP] and [MASK], but "
            f"here they are {vocabulary.special_tokens}; set model.preprocessor = None."
        )
    ours.tokenizer.refuse_added_tokens("KerasHub's BertTokenizer", "Set model.preprocessor = None")
    models = _models()
    tokenizer = models.BertTokenizer(
        vocabulary=list(vocabulary.tokens),
        lowercase=ours.tokenizer.lowercase,
        strip_accents=ours.tokenizer.strip_accents,
        split_on_cjk=ours.tokenizer.split_cjk,
        oov_token=vocabulary.unknown,
    )
    kind = getattr(models, _PREPROCESSORS[task])
    return kind(tokenizer, sequence_length=ours.sequence_length)


def _models() -> Any:
    return require("keras_hub", "keras-nlp", "KerasHub's format").models
