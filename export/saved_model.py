"""SavedModel: texts in, answers out, for TensorFlow Serving and everything that loads it."""

import functools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import keras_bert
from keras_bert.atomic import replacing
from keras_bert.export.check import FLOAT32_TOLERANCE, check, compare, explaining, reference
from keras_bert.export.signatures import Tensors, Weights, answers_of, ids_function, input_names

# Beside the model's own files, where the format leaves room for others'.
DESCRIPTION = "assets.extra/keras_bert.json"


def saved_model(model: keras.Model, directory: str | os.PathLike) -> None:
    """Writes a SavedModel with the vocabulary inside and every weight once.

    Signatures, with N texts:
        `serving_default`: `text` `[N]` string;
        `text_pair`: `text` and `text_pair`, `[N]` string each;
        `ids`: `token_ids`, `segment_ids`, `padding_mask`, `[N, T]` int32 each.

    A model without preprocessor has `ids` alone. Outputs, float32 unless said otherwise:
        `SequenceClassifier`: `logits`, `scores` `[N, L]`; `labels` `[N, L]` string, the names
            beside the scores; for single labels also `label` `[N]` string, the best. The string
            outputs belong to the signatures that take text, and a regression has none.
        `MaskedLanguageModel`: `logits` `[N, T, V]`.
        `PretrainingModel`: `mlm_logits` `[N, T, V]`, `nsp_logits` `[N, 2]`.
        `TextEmbedder`: `embedding` `[N, H]`.
        `Encoder`: `sequence_output` `[N, T, H]` and, with a pooler, `pooled_output` `[N, H]`.
        `TokenClassifier`: `logits` `[N, T, L]`; with a random field also `tags` `[N, T]` int32,
            the best sequence of labels of the tokens that begin words, -1 at all other tokens.
        `SpanClassifier`: `start_logits`, `end_logits` `[N, T]`.
        `NextSentencePredictor`: `logits` `[N, 2]`; `MultipleChoice`: `logits` `[N]`, one for
            each pair of a question and a choice.

    To load it, a process needs TensorFlow and `import tensorflow_text`.

    Args:
        model: an `Encoder` or a task.
        directory: where to; an earlier SavedModel of ours there is replaced. TensorFlow Serving
            wants a number as the directory's name.

    Raises:
        InputError: if the model cannot be exported, or the directory holds something else.
        ExportError: if what was written does not give the model's answers.
    """
    answers = answers_of(model)
    with replacing(directory, marker=DESCRIPTION) as path:
        module = Weights(model)
        module.ids = ids_function(model)
        signatures = {"ids": module.ids}
        preprocessor = getattr(model, "preprocessor", None)
        if preprocessor is not None:
            files = path.with_name("assets")
            files.mkdir()
            preprocessor.tokenizer.save(files)
            module.vocabulary = [tf.saved_model.Asset(str(file)) for file in files.iterdir()]
            signatures |= _text_functions(model, answers, module.ids)
        with explaining("Writing the SavedModel"):
            tf.saved_model.save(module, str(path), signatures=signatures)
        _describe(model, path / DESCRIPTION)
        _check(model, path)


def _check(model: Any, path: Path) -> None:
    with explaining("Loading the SavedModel"):
        signatures = tf.saved_model.load(str(path)).signatures

    def run(signature: str, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        arguments = {name: tf.constant(value) for name, value in inputs.items()}
        return {name: value.numpy() for name, value in signatures[signature](**arguments).items()}

    check(model, "SavedModel", functools.partial(run, "ids"), FLOAT32_TOLERANCE)
    if "serving_default" in signatures:
        texts = ["Text in, answers out.", ""]
        expected = reference(model, model.preprocessor(texts))
        with explaining("Running the SavedModel on text"):
            actual = run("serving_default", {"text": texts})
        compare("SavedModel", expected, actual, FLOAT32_TOLERANCE)


def _text_functions(model: Any, answers: Any, ids: Any) -> dict[str, Any]:
    """The signatures that take strings; all share the one graph of the model."""
    names = input_names(model)

    def answer(texts: Any) -> Tensors:
        inputs = model.preprocessor(texts)
        outputs = ids(*(inputs[name] for name in names))
        return outputs | answers.strings(model, outputs)

    def specification(name: str) -> tf.TensorSpec:
        return tf.TensorSpec([None], tf.string, name=name)

    @tf.function(input_signature=[specification("text")], autograph=False)
    def text_function(text: tf.Tensor) -> Tensors:
        return answer(text)

    @tf.function(
        input_signature=[specification("text"), specification("text_pair")], autograph=False
    )
    def pair_function(text: tf.Tensor, text_pair: tf.Tensor) -> Tensors:
        return answer((text, text_pair))

    return {"serving_default": text_function, "text_pair": pair_function}


def _describe(model: keras.Model, path: Path) -> None:
    description = {
        "written_by": f"keras-bert-encoders {keras_bert.__version__}",
        "task": type(model).__name__,
        "labels": list(getattr(model, "labels", ())),
        "encoder": model.config.to_dict(),
    }
    path.parent.mkdir()
    path.write_text(json.dumps(description, indent=2, ensure_ascii=False) + "\n", "utf-8")
