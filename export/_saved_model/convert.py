"""Writes a SavedModel that takes texts, for TensorFlow Serving and TensorFlow."""

import contextlib
import itertools
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import keras_bert
from keras_bert.atomic import replacing, written_with
from keras_bert.checkpoints.directories import TEXT_FILES
from keras_bert.checkpoints.variables import in_bfloat16, without_adapters
from keras_bert.errors import InputError
from keras_bert.export._saved_model.text_signatures import (
    SENTENCES,
    same,
    takes_pairs,
    text_functions,
    text_signature,
)
from keras_bert.export.artifact_checks import (
    FLOAT32_TOLERANCE,
    ExportError,
    check,
    compare,
    explaining,
    reference,
)
from keras_bert.export.formats import INPUT_NAMES, versioned
from keras_bert.export.signatures import (
    Weights,
    check_exportable,
    ids_function,
    input_names,
    without_padding,
)
from keras_bert.layers.fused import with_any_length, with_fusible_forms

TOLERANCES = {"float32": FLOAT32_TOLERANCE, "bfloat16": 0.1}
"""Difference that `check` allows for each dtype. For bfloat16, it only finds broken files."""

_LARGEST = 2_000_000_000  # bytes of constants; a graph's file must be smaller than 2 GiB

# Files in `assets.extra`, the directory that SavedModel leaves to other programs.
DESCRIPTION = "assets.extra/keras_bert.json"
WARM_UP = "assets.extra/tf_serving_warmup_requests"
EARLIER = written_with(
    DESCRIPTION,
    WARM_UP,
    "saved_model.pb",
    "fingerprint.pb",
    "variables/variables.index",
    "variables/variables.data-00000-of-00001",
    *(f"assets/{name}" for name in TEXT_FILES),
)


def saved_model(
    model: keras.Model,
    directory: str | os.PathLike,
    *,
    version: int | None = None,
    names: str = "keras_bert",
    top_k: int = 5,
    logits: bool = False,
    dtype: str = "float32",
) -> Path:
    """Writes a SavedModel that contains the tokenizer and stores every weight once.

    Signatures, with N texts:
        `serving_default`: `text` `[N]` string;
        `text_pair`: `text` and `text_pair`, `[N]` string each;
        `ids`: `token_ids`, `segment_ids`, `padding_mask`, `[N, T]` int32 each;
        `question_answer` of a `SpanClassifier`: `question` and `context`, `[N]` string each;
        `fill_mask` of a `MaskedLanguageModel` or `PretrainingModel`: `text` `[N]` string.

    A model without preprocessor has only `ids`, and a model with `windows` has no `text_pair`.
    Outputs are float32 unless another type is named:
        `SequenceClassifier`: `scores` `[N, L]`. Signatures that take text also give `labels`
            `[N, L]` string, the label of each score; for single labels, `label` `[N]` string and
            `score` `[N]`, the best label and its score. A regression has only `scores`. `ids`
            also gives `logits` `[N, L]`.
        `MaskedLanguageModel`: `logits` `[N, T, V]`.
        `PretrainingModel`: `mlm_logits` `[N, T, V]`, `nsp_logits` `[N, 2]`.
        `TextEmbedder`: `embedding` `[N, H]`.
        `Encoder`: `sequence_output` `[N, T, H]` and, with a pooler, `pooled_output` `[N, H]`.
        `TokenClassifier`: `logits` `[N, T, L]`; with a CRF and a preprocessor also `tags` `[N, T]`
            int32, the best sequence of labels of the tokens that begin words, -1 at other tokens.
            Signatures that take text also give the entities of `predict_text`, `[N, E]`, with E
            the largest number of entities in a text: `entities`, `labels` string, `starts`,
            `ends` int32 (characters of the text), `scores`. A text with fewer entities is padded
            with "" and -1.
        `SpanClassifier`: `start_logits`, `end_logits` `[N, T]`. `question_answer` instead gives
            the answer of `predict_text`: `answer` `[N]` string, `start`, `end` `[N]` int32
            (characters of the context), `score` `[N]`; no answer is "", 0, 0.
        `fill_mask`: `tokens` `[N, M, top_k]` string, the likeliest tokens for each mask, and
            `scores` `[N, M, top_k]`, their probabilities. M is the largest number of masks in a
            text. A text with fewer masks is padded with "" and -1.
        `NextSentencePredictor`: `logits` `[N, 2]`.
        `ReplacedTokenDetector`: `logits` `[N, T]`.
        `MultipleChoice`: `logits` `[N]`, one for each pair of a text and a choice.

    The entities' texts and the questions' contexts may have any length, because they are divided
    into windows, as in Keras. The texts of a model with `windows` are divided, too, into at most
    `max_windows` windows. For all other outputs, a text is cut to `sequence_length` tokens. If a
    signature takes text, T is the number of tokens of the longest text.

    A process that loads the SavedModel needs TensorFlow and `import tensorflow_text`. TensorFlow
    Serving replays the requests of `assets.extra/tf_serving_warmup_requests` when it loads the
    model.

    Args:
        model: an `Encoder` or a task.
        directory: the directory to write. An earlier SavedModel of this package is replaced.
            TensorFlow Serving needs a number as the directory's name.
        version: number of the model's version. With a version, the model is written to a
            subdirectory with this number as its name. Then `directory` is TensorFlow Serving's base
            path, and may hold other versions.
        names: names of the inputs of `ids`: "keras_bert", "huggingface" (`input_ids`,
            `token_type_ids`, `attention_mask`) or "tfhub" (`input_word_ids`, `input_type_ids`,
            `input_mask`).
        top_k: number of tokens that `fill_mask` gives for each mask.
        logits: whether a classifier's signatures that take text give `logits`, too.
        dtype: "float32" or "bfloat16", for weights and computations. A SavedModel in bfloat16 is
            half as large, but needs more memory. It is faster on processors with AVX-512 BF16 or
            AMX, and slower on processors without both. Outputs are float32 for both dtypes. In
            bfloat16, logits have 2 to 3 correct digits; `check_accuracy` measures the loss of the
            metric.

    Returns:
        The SavedModel's directory.

    Raises:
        InputError: if the model cannot be exported, an argument is out of its range, or the
            directory holds files that this function does not write.
        ExportError: if the SavedModel does not give the model's answers.

    Example:
        >>> model = keras_bert.load("run/model")
        >>> export.saved_model(model, "served/1")
        PosixPath('served/1')
    """
    check_arguments(model, version=version, names=names, top_k=top_k, logits=logits, dtype=dtype)
    target = versioned(directory, version)
    rounded = dtype == "bfloat16"
    written = in_bfloat16(model) if rounded else without_adapters(model)
    forms: Any = with_fusible_forms if rounded else contextlib.nullcontext
    constants, variables = _divided_weights(written)
    with replacing(target, owned=EARLIER) as path:
        module = Weights(variables)
        module.ids = ids_function(written, constants=constants)
        signatures = {"ids": _renamed(module.ids, INPUT_NAMES[names])}
        preprocessor = getattr(model, "preprocessor", None)
        if preprocessor is not None:
            files = path.with_name("assets")
            files.mkdir()
            preprocessor.tokenizer.save(files)
            module.vocabulary = [tf.saved_model.Asset(str(file)) for file in files.iterdir()]
            signatures |= text_functions(written, module.ids, top_k, logits)
        with explaining("Writing the SavedModel"), forms(), with_any_length():
            tf.saved_model.save(module, str(path), signatures=signatures)
        _describe(model, INPUT_NAMES[names], path / DESCRIPTION)
        if preprocessor is not None:
            served = target.parent if target.name.isdecimal() else target
            _write_warm_up(path / WARM_UP, served.absolute().name, _requests(model))
        _check(model, path, INPUT_NAMES[names], top_k, logits, dtype)
    return target


def check_arguments(
    model: keras.Model,
    *,
    version: int | None = None,
    names: str = "keras_bert",
    top_k: int = 5,
    logits: bool = False,
    dtype: str = "float32",
) -> None:
    """Checks the arguments of `saved_model` before anything is written.

    Raises:
        InputError: if the model cannot be exported, or an argument is out of its range.
    """
    check_exportable(model)
    if names not in INPUT_NAMES:
        raise InputError(f"names is {names!r}, but must be one of {', '.join(INPUT_NAMES)}.")
    if dtype not in TOLERANCES:
        raise InputError(f"dtype is {dtype!r}, but must be one of {', '.join(TOLERANCES)}.")
    if version is not None and version < 0:
        raise InputError(f"version is {version}, but must be 0 or more.")
    preprocessor = getattr(model, "preprocessor", None)
    if preprocessor is not None and not 1 <= top_k <= len(preprocessor.vocabulary):
        raise InputError(f"top_k is {top_k}, but must be from 1 to {len(preprocessor.vocabulary)}.")


def _divided_weights(model: Any) -> tuple[list[keras.Variable], list[keras.Variable]]:
    """Returns the weights that are constants of the graph `ids`, and those that are variables.

    oneDNN arranges constant kernels once, for products that use matrix units and add the bias. In
    float32, such products are not faster. `fill_mask` reads the weights, too, so a masked language
    model has only variables. Otherwise, its kernels would be stored twice. If layers have the same
    kernels, as in ALBERT, each layer would have a copy in memory, so they are variables.
    """
    own, weights, layers = text_signature(model), list(model.weights), model.config.layer_order
    is_kernel = [w.name == "kernel" and w.dtype == "bfloat16" for w in weights]
    constants = list(itertools.compress(weights, is_kernel))
    reads_twice = own is not None and own.name == "fill_mask"
    is_large = sum(2 * math.prod(kernel.shape) for kernel in constants) > _LARGEST
    if reads_twice or is_large or len(set(layers)) < len(layers):
        return [], weights
    return constants, [w for w, constant in zip(weights, is_kernel, strict=True) if not constant]


def _requests(model: Any) -> list[tuple[str, dict[str, list[str]]]]:
    """Makes a request for each signature that takes texts."""
    requests = [("serving_default", {"text": SENTENCES})]
    if takes_pairs(model):
        requests.append(("text_pair", {"text": SENTENCES, "text_pair": SENTENCES}))
    own = text_signature(model)
    if own is not None and own.name != "serving_default":
        requests.append((own.name, dict(zip(own.inputs, own.sample(model), strict=True))))
    return requests


def _renamed(ids: Any, names: Mapping[str, str]) -> Any:
    """Wraps `ids`, a function of token ids, so that its inputs have other names."""
    specifications = [
        tf.TensorSpec(spec.shape, spec.dtype, name=names.get(spec.name, spec.name))
        for spec in ids.input_signature
    ]
    return tf.function(
        lambda *arrays: ids(*arrays), input_signature=specifications, autograph=False
    )


def _check(
    model: Any,
    path: Path,
    names: Mapping[str, str],
    top_k: int,
    logits: bool,
    dtype: str,
) -> None:
    tolerance = TOLERANCES[dtype]
    with explaining("Loading the SavedModel"):
        signatures = tf.saved_model.load(str(path)).signatures

    def run(signature: str, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        arguments = {name: tf.constant(value) for name, value in inputs.items()}
        return {name: value.numpy() for name, value in signatures[signature](**arguments).items()}

    def run_ids(inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return run("ids", {names.get(name, name): value for name, value in inputs.items()})

    check(model, "SavedModel", run_ids, tolerance)
    if "serving_default" in signatures:
        ids = without_padding(model.text_preprocessor(SENTENCES))
        expected, mask = reference(model, ids), ids["padding_mask"].numpy()
        with explaining("Running the SavedModel on text"):
            actual = run("serving_default", {"text": SENTENCES})
        if "scores" in expected and not logits:
            del expected["logits"]
        compare("SavedModel", expected, actual, tolerance, mask)
    own = text_signature(model)
    if own is not None:
        columns = own.sample(model)
        with explaining(f"Running {own.name} of the SavedModel"):
            outputs = run(own.name, dict(zip(own.inputs, columns, strict=True)))
        answers = own.read(outputs)
        # In bfloat16, rounded scores may choose other answers.
        if dtype == "float32" and not same(own.predict(model, columns, top_k), answers, tolerance):
            raise ExportError(
                f"The SavedModel's {own.name} and the model give different answers; nothing was "
                "written."
            )


def _describe(model: keras.Model, names: Mapping[str, str], path: Path) -> None:
    description = {
        "written_by": f"keras-bert-encoders {keras_bert.__version__}",
        "task": type(model).__name__,
        "input_names": {name: names.get(name, name) for name in input_names(model)},
        "labels": list(getattr(model, "labels", ())),
        "encoder": model.config.to_dict(),
    }
    path.parent.mkdir()
    path.write_text(json.dumps(description, indent=2, ensure_ascii=False) + "\n", "utf-8")


# TensorFlow Serving replays requests when it loads a model, so that the first user need not wait.
#
# The file is a TFRecord of `PredictionLog` messages. All needed fields hold bytes, so this module
# writes them field by field, without the server's package. The field numbers come from
# `prediction_log.proto`, `predict.proto` and `model.proto` in
# https://github.com/tensorflow/serving/tree/master/tensorflow_serving/apis.

_PREDICT_LOG, _REQUEST = 6, 1  # PredictionLog.predict_log, PredictLog.request
_MODEL_SPEC, _INPUTS = 1, 2  # PredictRequest
_NAME, _SIGNATURE_NAME = 1, 3  # ModelSpec
_KEY, _VALUE = 1, 2  # an entry of a map


def _write_warm_up(
    path: Path, model: str, requests: Sequence[tuple[str, Mapping[str, Sequence[str]]]]
) -> None:
    """Writes the requests that TensorFlow Serving replays.

    Args:
        path: path of the file.
        model: name that the model is served under.
        requests: the signature's name, and N texts for each of its inputs.
    """
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, inputs in requests:
            writer.write(_prediction_log(model, signature, inputs))


def _prediction_log(model: str, signature: str, inputs: Mapping[str, Sequence[str]]) -> bytes:
    specification = _field(_NAME, model.encode()) + _field(_SIGNATURE_NAME, signature.encode())
    request = _field(_MODEL_SPEC, specification)
    for name, texts in inputs.items():
        tensor = tf.make_tensor_proto(list(texts), tf.string).SerializeToString()
        request += _field(_INPUTS, _field(_KEY, name.encode()) + _field(_VALUE, tensor))
    return _field(_PREDICT_LOG, _field(_REQUEST, request))


def _field(number: int, content: bytes) -> bytes:
    """Encodes a field of bytes: number and type, length, content."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Encodes a number with seven bits in each byte, the lowest first.

    The eighth bit of a byte says whether more bytes follow.
    """
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(high) if high else bytes([low])
