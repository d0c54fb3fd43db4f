"""Builds the signatures that take texts. `SIGNATURES` has those that only some tasks have."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.export._saved_model.entities import find_entities
from keras_bert.export._saved_model.question_answering import answer_questions, best_spans
from keras_bert.export.signatures import Arrays, input_names, task_outputs_of, without_padding
from keras_bert.tasks.fill_mask import fill_mask
from keras_bert.tasks.registry import task_of

Columns = Sequence[Sequence[str]]
Tensors = dict[str, tf.Tensor]


@dataclasses.dataclass(frozen=True)
class TextSignature:
    """A signature that takes texts and gives answers.

    Args:
        name: name of the signature.
        inputs: names of the inputs, strings `[N]` each.
        graph: function of the model, its function of ids, and `top_k`. Returns the signature as a
            function of the inputs.
        predict: function of the model, the texts of each input, and `top_k`. Returns the answers
            of the Keras model, one for each of N texts.
        read: function of the signature's outputs as arrays. Returns the answers in the form of
            `predict`.
        sample: function of the model. Returns texts for each input. On these texts, the signature
            is compared with the Keras model.
    """

    name: str
    inputs: tuple[str, ...]
    graph: Callable[[Any, Any, int], Callable[..., Tensors]]
    predict: Callable[[Any, Columns, int], list[Any]]
    read: Callable[[Arrays], list[Any]]
    sample: Callable[[Any], list[list[str]]]


def text_functions(model: Any, ids: Any, top_k: int, logits: bool) -> dict[str, Any]:
    """Builds all signatures of a SavedModel that take strings.

    All signatures but `fill_mask` call the same function of ids.

    Args:
        model: a model with a preprocessor.
        ids: the model as a function of ids.
        top_k: number of tokens to predict for each mask.
        logits: whether signatures that take text give a classifier's logits, too.
    """
    names, task = input_names(model), task_outputs_of(model)

    def answer(*texts: tf.Tensor) -> Tensors:
        texts_of_model = texts if len(texts) > 1 else texts[0]
        inputs = without_padding(model.text_preprocessor(texts_of_model))
        outputs = ids(*(inputs[name] for name in names))
        found = outputs | task.answers(model, outputs)
        if "scores" in found and not logits:
            del found["logits"]
        return found

    functions = {"serving_default": text_function(answer, ("text",))}
    if takes_pairs(model):
        functions["text_pair"] = text_function(answer, ("text", "text_pair"))
    own = text_signature(model)
    if own is not None:
        functions[own.name] = text_function(own.graph(model, ids, top_k), own.inputs)
    return functions


def takes_pairs(model: Any) -> bool:
    """Returns whether a model has the signature `text_pair`: whether it reads no windows."""
    return getattr(model, "windows", None) is None


def text_function(graph: Callable[..., Tensors], names: Sequence[str]) -> Any:
    """Makes a `tf.function` whose inputs are strings `[N]` with these names.

    The graph checks the shapes of the inputs, because runtimes do not. For example, TensorFlow
    Serving makes a scalar of `{"inputs": {"text": "..."}}`, and tensorflow-text's operators would
    crash on it.
    """
    return tf.function(
        lambda *texts: graph(*(tf.ensure_shape(text, [None]) for text in texts)),
        input_signature=[tf.TensorSpec([None], tf.string, name=name) for name in names],
        autograph=False,
    )


def _answer_function(model: Any, ids: Any, top_k: int) -> Callable[..., Tensors]:
    names = input_names(model)
    return functools.partial(answer_questions, model, best_spans(ids, names), names)


def _read_entities(outputs: Arrays) -> list[Any]:
    columns = [outputs[name] for name in ("labels", "starts", "ends", "entities", "scores")]
    names = ("label", "start", "end", "text", "score")
    return [
        [
            dict(zip(names, map(_plain, entity), strict=True))
            for entity in zip(*row, strict=True)
            if entity[1] >= 0
        ]
        for row in zip(*columns, strict=True)
    ]


def _read_answers(outputs: Arrays) -> list[Any]:
    names = ("answer", "start", "end", "score")
    rows = zip(*(outputs[name] for name in names), strict=True)
    return [dict(zip(names, map(_plain, row), strict=True)) for row in rows]


def _read_masks(outputs: Arrays) -> list[Any]:
    return [
        [
            [{"token": _plain(t), "score": _plain(s)} for t, s in zip(tokens, scores, strict=True)]
            for tokens, scores in zip(*text, strict=True)
            if scores[0] >= 0
        ]
        for text in zip(outputs["tokens"], outputs["scores"], strict=True)
    ]


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value.item()


SENTENCES = ["Text in, answers out.", ""]

_ENTITIES = TextSignature(
    "serving_default",
    ("text",),
    lambda model, ids, top_k: functools.partial(find_entities, model, ids, input_names(model)),
    lambda model, columns, top_k: [found["entities"] for found in model.predict_text(columns[0])],
    _read_entities,
    lambda model: [SENTENCES],
)
_ANSWERS = TextSignature(
    "question_answer",
    ("question", "context"),
    _answer_function,
    lambda model, columns, top_k: [
        {name: answer[name] for name in ("answer", "start", "end", "score")}
        for answer in model.predict_text(tuple(columns))
    ],
    _read_answers,
    lambda model: [["What comes out?", ""], SENTENCES],
)
_MASKS = TextSignature(
    "fill_mask",
    ("text",),
    lambda model, ids, top_k: functools.partial(fill_masks, model, top_k),
    lambda model, columns, top_k: fill_mask(model, columns[0], top_k),
    _read_masks,
    lambda model: [[f"{mask} in, {mask} out." for mask in [model.preprocessor.vocabulary.mask]]],
)

SIGNATURES: dict[str, TextSignature] = {
    "masked_lm": _MASKS,
    "pretraining": _MASKS,
    "span_classifier": _ANSWERS,
    "token_classifier": _ENTITIES,
}


def text_signature(model: Any) -> TextSignature | None:
    """Returns the entry of `SIGNATURES` for the task of a model with a preprocessor, or None."""
    if getattr(model, "preprocessor", None) is None:
        return None
    return SIGNATURES.get(task_of(model) or "")


def same(expected: Any, actual: Any, tolerance: float) -> bool:
    """Whether answers are the same, with scores within a tolerance."""
    if isinstance(expected, float):
        return abs(expected - actual) <= tolerance
    if isinstance(expected, dict):
        return expected.keys() == actual.keys() and all(
            same(value, actual[name], tolerance) for name, value in expected.items()
        )
    if isinstance(expected, list):
        return len(expected) == len(actual) and all(
            same(a, b, tolerance) for a, b in zip(expected, actual, strict=True)
        )
    return bool(expected == actual)


def fill_masks(model: Any, top_k: int, texts: tf.Tensor) -> Tensors:
    """Predicts the likeliest tokens for every mask of texts.

    Args:
        model: a `MaskedLanguageModel` or `PretrainingModel`.
        top_k: number of tokens to predict for each mask.
        texts: strings `[N]`; masks beyond the model's length are cut off.

    Returns:
        `tokens` string and `scores` float32 `[N, M, top_k]`, with M the largest number of masks in
        a text. Texts with fewer masks are padded with "" and -1.
    """
    preprocessor = model.preprocessor
    vocabulary, readable = preprocessor.vocabulary, preprocessor.tokenizer.readable
    names = np.array([readable(index) for index in range(len(vocabulary))], object)
    inputs = without_padding(preprocessor(texts, allow_special_tokens=True))
    is_mask = tf.equal(inputs["token_ids"], vocabulary.mask_id)
    counts = tf.reduce_sum(tf.cast(is_mask, tf.int32), axis=1)
    places = tf.cast(tf.where(is_mask)[:, 1], tf.int32)
    positions = tf.RaggedTensor.from_row_lengths(places, counts, validate=False).to_tensor()
    # The head needs at least one position.
    missing = tf.maximum(1 - tf.shape(positions)[1], 0)
    positions = tf.pad(positions, tf.stack([[0, 0], tf.stack([0, missing])]))
    outputs = model({**inputs, "masked_positions": positions}, training=False)  # [N, M, V]
    logits = outputs["mlm_logits"] if isinstance(outputs, dict) else outputs
    probabilities = tf.nn.softmax(logits[..., : len(vocabulary)])
    scores, ids = tf.math.top_k(probabilities, top_k)
    known = tf.range(tf.shape(positions)[1]) < counts[:, tf.newaxis]
    known = known[:, :, tf.newaxis]
    return {
        "tokens": tf.where(known, tf.gather(names, ids), ""),
        "scores": tf.where(known, scores, -1.0),
    }
