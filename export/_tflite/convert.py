"""Writes a TFLite file that takes ids or texts, for phones and other LiteRT programs."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.atomic import replacing
from keras_bert.checkpoints.variables import without_adapters
from keras_bert.errors import InputError
from keras_bert.export import worker
from keras_bert.export._tflite import runtime
from keras_bert.export._tflite.metadata import Reader, reader_of, with_metadata
from keras_bert.export._tflite.quantization import (
    Rows,
    quantized,
    representative_rows,
    with_mask_value,
)
from keras_bert.export._tflite.text_signatures import (
    phone_tokenizer,
    text_converter,
    text_functions,
)
from keras_bert.export.artifact_checks import (
    Run,
    check,
    compare,
    explaining,
    reference,
    require,
    samples,
)
from keras_bert.export.formats import TFLITE
from keras_bert.export.quantization import TOLERANCES, check_quantization
from keras_bert.export.signatures import (
    Arrays,
    Weights,
    check_exportable,
    ids_function,
    ids_of,
    longest_input,
)
from keras_bert.layers.configured import INPUTS

_ROWS_CHECKED = 8
_TEXTS = ["Text in, answers out.", "", "Ein Café, \u4e2d\u6587!"]


def tflite(
    model: keras.Model,
    path: str | os.PathLike,
    quantize: str = "none",
    sequence_length: int | None = None,
    *,
    batch_size: int | None = None,
    representative: Any = None,
    keep_float: Sequence[str] = (),
    text: bool = False,
    metadata: bool = False,
) -> Path:
    """Writes a TFLite file that takes ids or texts.

    A file that takes ids has the signature `serving_default` with the inputs `token_ids`,
    `segment_ids`, `padding_mask` int32. Its outputs are float32 and have the same names as in the
    signature `ids` of a SavedModel. The file uses only TFLite's built-in operators.

    With `text`, the inputs are strings `[N]`. A program that opens the file must register
    tensorflow-text's operators (see `text_signatures.py`). Signatures by task:
        `serving_default` takes `text`, `text_pair` takes `text` and `text_pair`. The outputs are
            the same as from ids. A `SequenceClassifier` also gives `labels` `[N, L]` and, if a
            text has one label, the best `label` and its `score` `[N]`. A regression gives none of
            these. A `TokenClassifier` also gives `starts` and `ends` `[N, T]` int32, the positions
            of each token in characters (code points). Special tokens and padding have -1. A
            `ReplacedTokenDetector` gives `starts` and `ends`, too, if the tokenizer is WordPiece.
        `question_answer` of a `SpanClassifier` takes `question` and `context`. It gives
            `start_logits`, `end_logits`, and `starts`, `ends` in the context. A long context is
            cut to fit.
        `fill_mask` of a `MaskedLanguageModel` or `PretrainingModel` takes the texts `before` and
            `after` a mask. It gives `tokens` `[N, 5]` string and `scores` `[N, 5]`. If `before`
            leaves no room for the mask, the tokens are "" and the scores -1.

    Args:
        model: an `Encoder` or a task.
        path: the file, replaced if it exists.
        quantize: "none"; "float16" (weights in half precision); "dynamic" (weights in int8,
            activations quantized while the file runs); "int8" (both in int8, only from ids).
        sequence_length: number of tokens L. If given, ids have the shape `[batch_size, L]`, for
            delegates that need static shapes. By default, a file takes any shape `[N, T]`. But
            with `text` or `metadata`, T is always fixed: to L, or to the preprocessor's length.
        batch_size: number of texts that the file takes at once. By default, the number is 1 if ids
            have a fixed length, and free otherwise. With `text`, the number is free by default.
        representative: for "int8", inputs to measure the ranges of values on: some hundred typical
            texts, a tuple of two lists of texts for pairs, or ids `[N, T]` by name.
        keep_float: for "int8", layers that stay float32, given by parts of their names, with `*`
            for any text: "embeddings", "layer_0/attention", "*layer_norm". "layer_*/add" are the
            residual sums.
        text: whether the file takes texts. The tokenizer must be WordPiece, byte pairs with
            GPT-2's pattern or, if the task does not need positions of tokens, SentencePiece with
            a unigram model.
        metadata: whether the file has labels, vocabulary and a description for MediaPipe's
            `TextClassifier` and `TextEmbedder` and the Task Library's `BertQuestionAnswerer`. The
            model must be a `SequenceClassifier`, a `TextEmbedder`, or a `SpanClassifier` with 384
            tokens. The only output of a `SequenceClassifier` is then `scores`. The tokenizer must
            be WordPiece. The phone libraries' tokenizers lowercase only ASCII and keep accents.

    Returns:
        The file's path.

    Raises:
        InputError: if an argument is not possible, or `ai-edge-litert` is not installed.
        ExportError: if the file does not give the model's answers.

    Example:
        >>> model = keras_bert.load("run/model")
        >>> export.tflite(model, "model.tflite", quantize="dynamic")
        PosixPath('model.tflite')
    """
    check_arguments(
        model,
        quantize,
        sequence_length,
        batch_size=batch_size,
        representative=representative,
        keep_float=keep_float,
        text=text,
        metadata=metadata,
    )
    model = without_adapters(model)
    with replacing(path) as scratch:
        if text:
            _write_for_texts(model, scratch, quantize, sequence_length, batch_size)
            return Path(path)
        reader = reader_of(model) if metadata else None
        if reader is not None:
            sequence_length = reader.length_of(model, sequence_length)
        shape = None if sequence_length is None else (batch_size or 1, sequence_length)
        rows = representative_rows(model, representative, shape) if quantize == "int8" else []
        _write_for_ids(model, scratch, quantize, shape, rows, keep_float, reader)
    return Path(path)


def check_arguments(
    model: keras.Model,
    quantize: str = "none",
    sequence_length: int | None = None,
    *,
    batch_size: int | None = None,
    representative: Any = None,
    keep_float: Sequence[str] = (),
    text: bool = False,
    metadata: bool = False,
) -> None:
    """Checks the arguments of `tflite` before a file is written.

    Raises:
        InputError: if an argument is not possible, or `ai-edge-litert` is not installed.
    """
    check_exportable(model)
    require("ai_edge_litert.interpreter", "tflite")
    check_quantization(quantize, TFLITE.quantizations, keep_float)
    if quantize != "int8" and (representative is not None or keep_float):
        name = "keep_float" if keep_float else "representative"
        raise InputError(
            f"{name} is only for quantize='int8', but quantize is {quantize!r}: then the converter "
            "measures no ranges and lets no layer be chosen. Leave it out."
        )
    if text and quantize == "int8":
        raise InputError(
            "A file that takes texts cannot be quantized to 'int8', because the converter cannot "
            "run tensorflow-text's operators to measure ranges; choose 'dynamic', or leave out "
            "`text`."
        )
    if text and metadata:
        raise InputError(
            "metadata is for programs that tokenize texts and give the file ids, so the file "
            "cannot take texts itself; leave out `text` or `metadata`."
        )
    option = "text" if text else "metadata" if metadata else None
    if option and getattr(model, "windows", None) is not None:
        raise InputError(
            f"This {type(model).__name__} reads long texts in windows, but a TFLite file with "
            f"`{option}` would cut them; leave out `{option}` and give the file ids, or take the "
            "SavedModel."
        )
    longest = longest_input(model)
    if sequence_length is not None and not 1 <= sequence_length <= longest:
        raise InputError(
            f"sequence_length is {sequence_length}, but this model takes 1 to {longest} tokens."
        )
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size is {batch_size}, but must be 1 or more.")
    if metadata and batch_size not in (None, 1):
        raise InputError(
            f"batch_size is {batch_size}, but programs that read the metadata give one text at a "
            "time; leave it out."
        )
    if batch_size is not None and sequence_length is None and not text and not metadata:
        raise InputError(
            f"batch_size is {batch_size}, which makes shapes static; give a sequence_length, too."
        )
    if text:
        phone_tokenizer(model)
    if metadata:
        reader_of(model).length_of(model, sequence_length)


def _write_for_ids(
    model: Any,
    path: Path,
    quantize: str,
    shape: tuple[int, int] | None,
    rows: Rows,
    keep_float: Sequence[str],
    reader: Reader | None,
) -> None:
    source = with_mask_value(model) if quantize == "int8" else model
    batch, length = shape or (None, None)
    # MediaPipe expects three inputs, even if the model uses fewer.
    inputs, outputs = (None, None) if reader is None else (INPUTS, tuple(reader.outputs))
    function = ids_function(source, batch, length, inputs, outputs)
    with explaining("Converting to TFLite"):
        converter = tf.lite.TFLiteConverter.from_concrete_functions(
            [function.get_concrete_function()], Weights(source.weights)
        )
        names = [specification.name for specification in function.input_signature]
        fed = [{name: row[name] for name in names} for row in rows]
        content = _converted(converter, quantize, fed, keep_float)
        if reader is not None:
            content = with_metadata(content, model, reader)
        path.write_bytes(content)
    with explaining("Loading the TFLite file"):
        run = tflite_runner(path)
    batches = rows[:_ROWS_CHECKED] or samples(model.config, shape)
    check(model, "TFLite file", run, TOLERANCES[quantize], batches, outputs)


def _write_for_texts(
    model: Any, path: Path, quantize: str, length: int | None, batch: int | None
) -> None:
    functions = text_functions(model, length, batch)
    with explaining("Converting to TFLite"), text_converter(functions, model) as converter:
        path.write_bytes(_converted(converter, quantize))
    with explaining("Loading the TFLite file"):
        _, run = runtime.prepare(os.fspath(path), 1)()
    texts = tf.constant(np.resize(np.array(_TEXTS, object), batch or len(_TEXTS)))
    for signature, function in functions.items():
        names = [specification.name for specification in function.input_signature]
        outputs = function(*[texts] * len(names))
        expected = {name: value.numpy() for name, value in outputs.items()}
        several = texts if len(names) == 1 else (texts, texts)
        ids = ids_of(model, several, length)
        of_ids = reference(model, ids)
        expected |= {name: value for name, value in of_ids.items() if name in expected}
        with explaining(f"Running {signature} of the TFLite file"):
            actual = run(signature, dict.fromkeys(names, texts.numpy()))
        mask = ids["padding_mask"]
        compare(f"TFLite file's {signature}", expected, actual, TOLERANCES[quantize], mask)


def _converted(
    converter: Any, quantize: str, rows: Rows | None = None, keep_float: Sequence[str] = ()
) -> bytes:
    if quantize == "int8":
        return quantized(converter, rows or [], keep_float)
    if quantize != "none":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantize == "float16":
        converter.target_spec.supported_types = [tf.float16]
    return converter.convert()


def tflite_runner(path: str | os.PathLike) -> Run:
    """Loads a TFLite file that takes ids; returns a function that runs it on one thread.

    The function takes any number of texts, even if the file has a fixed batch size.
    """
    signatures, run = runtime.prepare(os.fspath(path), 1)()
    run = worker.in_parts(run, signatures)

    def run_ids(inputs: Arrays) -> Arrays:
        unused = np.zeros_like(inputs["token_ids"])
        names = signatures["serving_default"]["inputs"]
        return run("serving_default", {name: inputs.get(name, unused) for name in names})

    return run_ids
