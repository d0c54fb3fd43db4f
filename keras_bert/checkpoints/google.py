"""TensorFlow checkpoints of BERT: Google's own code (TF1) and TF Model Garden (TF2).

A directory holds `bert_config.json`, `vocab.txt` and `bert_model.ckpt.*`. The code of
github.com/google-research/bert always uses the tanh approximation for `"gelu"` and 1e-12 for the
LayerNorm's epsilon. That code ignores unknown fields of `bert_config.json`, so this module adds
`do_lower_case` and, for classifiers, the labels as transformers writes them.

TF Model Garden names tensors by paths of objects. The names here come from the converters of
transformers (convert_bert_original_tf2_checkpoint_to_pytorch.py and
convert_bert_token_dropping_original_tf2_checkpoint_to_pytorch.py) and of KerasNLP
(tools/checkpoint_conversion), because no file of TF Model Garden was available.
"""

import contextlib
import functools
import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.atomic import replacing
from keras_bert.checkpoints.contents import (
    Contents,
    check_expressible,
    has_pooler,
    needs_pooler,
    stored_task,
)
from keras_bert.checkpoints.directories import replaceable_files
from keras_bert.checkpoints.files import read_json, write_json
from keras_bert.checkpoints.huggingface.config import (
    fields_of_arguments,
    read_arguments,
    read_encoder,
)
from keras_bert.checkpoints.mapping import KERAS_KINDS, SAME, TRANSPOSED, links, renamed_weights
from keras_bert.checkpoints.variables import task_name
from keras_bert.errors import CheckpointError, InputError, StorageError
from keras_bert.families import bert

CONFIGURATION, VOCABULARY, WEIGHTS = "bert_config.json", "vocab.txt", "bert_model.ckpt"
_EARLIER = functools.partial(
    replaceable_files,
    marker=CONFIGURATION,
    is_known=lambda values: isinstance(values, dict) and "hidden_size" in values,
    files=(CONFIGURATION, VOCABULARY, f"{WEIGHTS}.index", f"{WEIGHTS}.data-00000-of-00001"),
)

KINDS = KERAS_KINDS | {
    "output": (("/kernel", "output_weights", TRANSPOSED), ("/bias", "output_bias", SAME)),
}

_ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu"}
_FIELDS = {k: v for k, v in bert.HUGGING_FACE_CONFIG.items() if k != "layer_norm_epsilon"}
_TASKS = ("encoder", "classifier", "masked_lm", "next_sentence", "pretraining", "span_classifier")
_LONGEST_WORD = 200  # characters, as in Google's tokenization.py


def is_google(path: Path) -> bool:
    """Returns whether a path is a TensorFlow checkpoint's directory, or a checkpoint's prefix."""
    if _index(path).is_file():
        return True
    configured = (path / CONFIGURATION).is_file() and not (path / "config.json").exists()
    return configured or any(path.glob("*.index"))


def open_google(path: Path) -> Contents:
    """Returns the contents of a directory of Google or TF Model Garden.

    Args:
        path: the directory, or a checkpoint's prefix in it (`.../bert_model.ckpt`). If a directory
            has several checkpoints, the one with the highest step is opened.

    Raises:
        CheckpointError: if a file is missing or damaged.
    """
    directory = path if path.is_dir() else path.parent
    configuration = directory / CONFIGURATION
    values = read_json(configuration)
    encoder = read_encoder(configuration, values, bert.TRAITS, _FIELDS, _ACTIVATIONS)
    source = _TensorFlowCheckpoint(_latest(directory) if path.is_dir() else path)
    names = set(source.names())
    rows = bert.MODEL_GARDEN if source.is_object_graph else bert.GOOGLE
    table = links(rows, KINDS, encoder.num_layers + 1)
    task = stored_task(table, names, ambiguous="classifier")
    encoder = encoder.replace(pooler=needs_pooler(task, "bert") or has_pooler(table, names))
    outputs = None
    if task == "classifier":
        outputs = len(np.atleast_1d(source.read("output_bias")))
        values = {"id2label": {str(i): str(i) for i in range(outputs)}} | values
    arguments, errors = read_arguments(configuration, values, task, _dropout(task), outputs=outputs)
    return Contents(
        place=path,
        task=task,
        encoder=encoder.to_dict(),
        arguments=arguments,
        preprocessor=_read_preprocessor(directory, values, encoder.max_positions),
        source=source,
        table=table,
        errors=errors,
    )


def save_google(model: keras.Model, directory: str | os.PathLike) -> None:
    """Writes a TF1 checkpoint for Google's code, complete or not at all.

    Raises:
        InputError: if Google's code cannot express the model, or the directory holds something
            other than a model.
        StorageError: if a file cannot be written.
    """
    encoder = {"activation": tuple(_ACTIVATIONS.values()), "layer_norm_epsilon": (1e-12,)}
    head = {
        "tied": (True,),
        "activation": (model.config.activation,),
        "layer_norm_epsilon": (1e-12,),
    }
    check_expressible(model, "Google's BERT", bert, _FIELDS, _TASKS, encoder, head)
    if model.preprocessor is not None:
        _check_text_format(model.preprocessor.tokenizer)
    tensors = renamed_weights(model, links(bert.GOOGLE, KINDS, model.config.num_layers))
    with replacing(directory, owned=_EARLIER) as path:
        path.mkdir()
        _write_tensors(tensors, path / WEIGHTS)
        write_json(_describe(model), path / CONFIGURATION)
        if model.preprocessor is not None:
            model.preprocessor.vocabulary.save(path / VOCABULARY)


class _TensorFlowCheckpoint:
    """Tensors of a TensorFlow checkpoint, without the optimizer's tensors.

    Tensors of TF Model Garden get short names, without the prefix `model/` and the suffix
    `/.ATTRIBUTES/VARIABLE_VALUE`. TF Model Garden numbers the encoder's parts, from 0 (token
    embedding) to the last (pooler). The short names have words in place of these numbers.
    """

    def __init__(self, prefix: Path):
        import tensorflow as tf

        self._prefix = prefix
        self._errors = (tf.errors.OpError, RuntimeError, TypeError, ValueError, IndexError)
        try:
            self._reader = tf.train.load_checkpoint(os.fspath(prefix))
            theirs = self._reader.get_variable_to_shape_map()
        except self._errors as error:
            raise CheckpointError(f"{prefix} is not a readable checkpoint: {error}") from error
        # When the reader reads its first value, it opens the data file and keeps it open.
        with contextlib.suppress(*self._errors):
            self._reader.get_tensor(min(theirs, key=lambda name: math.prod(theirs[name])))
        self.is_object_graph = _OBJECT_GRAPH in theirs
        if self.is_object_graph:
            self._names = {_short(name): name for name in theirs if _is_weight(name)}
        else:  # Adam's averages of x are x/adam_m and x/adam_v
            self._names = {
                name: name
                for name in theirs
                if name != "global_step" and name.rpartition("/")[0] not in theirs
            }

    def names(self) -> Iterable[str]:
        """Returns the names of all tensors, as in the family's table."""
        return self._names.keys()

    def read(self, name: str) -> np.ndarray:
        """Returns a tensor by its name."""
        try:
            return np.asarray(self._reader.get_tensor(self._names[name]))
        except self._errors as error:
            raise CheckpointError(f"{self._prefix}: cannot read {name!r}: {error}") from error

    def where(self, name: str) -> str:
        """Returns the prefix of the files."""
        return str(self._prefix)


_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_ENDING = "/.ATTRIBUTES/VARIABLE_VALUE"
_PART = re.compile(r"(?:encoder/)?layer_with_weights-(\d+)/(.+)")
_EMBEDDINGS = ("word", "position", "type", "norm")


def _is_weight(name: str) -> bool:
    inner = name.removesuffix(_ENDING)
    return inner != name and "/" in inner and "optimizer" not in inner.lower()


def _short(name: str) -> str:
    """Returns the short name of a tensor of TF Model Garden, as in the family's table."""
    name = name.removesuffix(_ENDING).removeprefix("model/")
    match = _PART.fullmatch(name)
    if not match:
        return name
    part, name = int(match[1]), match[2]
    if part < len(_EMBEDDINGS):
        return f"{_EMBEDDINGS[part]}/{name}"
    if "/" in name:
        return f"layer_{part - len(_EMBEDDINGS)}/{name}"
    return f"pooler/{name}"


def _index(prefix: Path) -> Path:
    return Path(f"{prefix}.index")  # not `with_name`: the path "." has no name


def _latest(directory: Path) -> Path:
    """Returns the prefix of the checkpoint with the highest step (`model.ckpt-1000`)."""
    found = sorted(
        directory.glob("*.index"), key=lambda path: [*map(int, _STEP.findall(path.name))]
    )
    if not found:
        raise CheckpointError(
            f"{directory / WEIGHTS}.index is missing; the checkpoint is not complete."
        )
    return found[-1].with_suffix("")


_STEP = re.compile(r"-(\d+)\.index$")


def _write_tensors(tensors: dict[str, np.ndarray], prefix: Path) -> None:
    import tensorflow as tf

    try:
        tf.raw_ops.SaveV2(
            prefix=os.fspath(prefix),
            tensor_names=list(tensors),
            shape_and_slices=[""] * len(tensors),
            tensors=list(tensors.values()),
        )
    except tf.errors.OpError as error:
        raise StorageError(f"Cannot write {prefix}: {error}.") from error


def _describe(model: keras.Model) -> dict[str, Any]:
    """Returns the `bert_config.json` of a model."""
    activations = {ours: theirs for theirs, ours in _ACTIVATIONS.items()}
    values = {theirs: getattr(model.config, ours) for ours, theirs in _FIELDS.items()}
    values["hidden_act"] = activations[model.config.activation]
    if model.preprocessor is not None:
        values["do_lower_case"] = model.preprocessor.tokenizer.lowercase
    task = task_name(model)
    return values | fields_of_arguments(model, task, _dropout(task))


def _dropout(task: str) -> str:
    return bert.HUGGING_FACE_TASKS[task].dropout


def _read_preprocessor(directory: Path, values: dict[str, Any], length: int) -> Any:
    """Returns the preprocessor, or None if there is no vocabulary.

    Without `do_lower_case`, the vocabulary decides whether the model is uncased: an uncased
    vocabulary has no capital letters except in special tokens.
    """
    if not (directory / VOCABULARY).exists():
        return None
    from keras_bert.text.preprocessor import Preprocessor  # imports TensorFlow
    from keras_bert.text.vocabulary import Vocabulary
    from keras_bert.text.wordpiece.tokenizer import WordPiece

    vocabulary = Vocabulary.from_file(directory / VOCABULARY)
    lowercase = values.get("do_lower_case")
    if lowercase is None:
        lowercase = all(t == t.lower() or t[0] + t[-1] in ("[]", "<>") for t in vocabulary.tokens)
    wordpiece = WordPiece(
        vocabulary, lowercase=bool(lowercase), max_characters_per_word=_LONGEST_WORD
    )
    return Preprocessor(wordpiece, sequence_length=length)


def _check_text_format(wordpiece: Any) -> None:
    from keras_bert.text.vocabulary import Vocabulary

    if wordpiece.kind != "wordpiece":
        raise InputError(
            f"Google's BERT splits text by WordPiece, not by {type(wordpiece).__name__}; set "
            "model.preprocessor = None to save only the weights."
        )
    wordpiece.refuse_added_tokens(
        "Google's tokenizer", "Set model.preprocessor = None to save only the weights"
    )
    plain = Vocabulary(wordpiece.vocabulary.tokens).special_tokens
    same_accents = wordpiece.strip_accents == wordpiece.lowercase
    if wordpiece.vocabulary.special_tokens != plain or not same_accents or not wordpiece.split_cjk:
        raise InputError(
            "Google's tokenizer has only the special tokens [PAD], [UNK], [CLS], [SEP] and "
            "[MASK], splits CJK, and strips accents if and only if it lowercases; this tokenizer "
            "differs. Set model.preprocessor = None to save only the weights."
        )
