"""Inputs and outputs of artifacts: a table of tasks that all formats use."""

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.layers.configured import used_inputs
from keras_bert.tasks.registry import class_names, task_of

Arrays = Mapping[str, np.ndarray]
Tensors = dict[str, Any]

WITHOUT_TEXT = "Leave out `text` and give the file ids, or take the SavedModel"
"""Advice for messages, if a format cannot take texts for a model."""


@dataclasses.dataclass(frozen=True)
class TaskOutputs:
    """Functions that compute a task's outputs in artifacts.

    Args:
        outputs: function of the model and ids `[N, T]` int32 by name. Returns tensors by name:
            in the model's precision, or int32 for choices such as tags. Every format has these
            outputs, in float32.
        answers: function of the model and these tensors. Returns more tensors by name for
            signatures that take text: names of labels, and the score of the best.
        decisions: function of the model, arrays by name and the padding mask `[N, T]`. Returns an
            array of discrete answers, which should be equal in an artifact and in the model. If
            the task has no discrete answers, returns None.
    """

    outputs: Callable[[Any, Tensors], Tensors]
    answers: Callable[[Any, Tensors], Tensors] = lambda model, outputs: {}
    decisions: Callable[[Any, Mapping[str, np.ndarray], np.ndarray], np.ndarray | None] = (
        lambda model, outputs, mask: None
    )


def _named(model: Any, inputs: Tensors) -> Tensors:
    """Returns the outputs of a model that names its outputs."""
    return dict(model(inputs, training=False))


def _logits(model: Any, inputs: Tensors) -> Tensors:
    return {"logits": model(inputs, training=False)}


def _embedding(model: Any, inputs: Tensors) -> Tensors:
    return {"embedding": model(inputs, training=False)}  # [N, H]


def _logits_and_scores(model: Any, inputs: Tensors) -> Tensors:
    logits = model(inputs, training=False)
    return {"logits": logits, "scores": model.scores(logits)}  # [N, L] each


def _one_choice(model: Any, inputs: Tensors) -> Tensors:
    """Returns the score of each choice, `[N]`."""
    choices = {name: keras.ops.expand_dims(ids, 1) for name, ids in inputs.items()}
    return {"logits": keras.ops.squeeze(model(choices, training=False), 1)}


def _logits_and_tags(model: Any, inputs: Tensors) -> Tensors:
    """Returns logits and, if there are a CRF and a tokenizer that knows where words begin, tags.

    `tags` `[N, T]` int32 has a label id at the first token of each word, and -1 elsewhere.
    """
    logits = model(inputs, training=False)
    if model.crf is None or model.preprocessor is None:
        return {"logits": logits}
    return {"logits": logits, "tags": model.crf.decode(logits, _begins_word(model, inputs))}


def _begins_word(model: Any, inputs: Tensors) -> Any:
    """Marks the first tokens of words with 1, others with 0: `[N, T]` int32."""
    tokenizer, take = model.preprocessor.tokenizer, keras.ops.take
    vocabulary = tokenizer.vocabulary
    size = max(len(vocabulary), model.config.vocabulary_size)
    continues, frame = np.ones(size, np.int32), np.zeros(size, np.int32)
    continues[: len(vocabulary)] = tokenizer.is_continuation
    frame[[vocabulary.pad_id, vocabulary.cls_id, vocabulary.separator_id]] = 1
    continues, frame = take(continues, inputs["token_ids"]), take(frame, inputs["token_ids"])
    # The first token of a text begins a word, even without the space that begins words in byte
    # pair tokenizers.
    after_frame = keras.ops.pad(frame[:, :-1], ((0, 0), (1, 0)))
    begins = keras.ops.maximum(1 - continues, after_frame)
    return begins * (1 - frame) * inputs["padding_mask"]


def _best_label(model: Any, outputs: Tensors) -> Tensors:
    """Returns `labels` `[N, L]`, the label of each score, and the best `label`, `score` `[N]`."""
    if model.problem_type == "regression":
        return {}
    names = tf.constant(model.labels)
    # TFLite gathers strings, but does not broadcast them.
    index = tf.zeros_like(outputs["scores"], tf.int32) + tf.range(model.num_labels)
    named = {"labels": tf.gather(names, index)}
    if model.problem_type == "single_label":
        named["label"] = tf.gather(names, tf.argmax(outputs["logits"], -1, tf.int32))
        named["score"] = tf.reduce_max(outputs["scores"], -1)
    return named


def _chosen_labels(
    model: Any, outputs: Mapping[str, np.ndarray], mask: np.ndarray
) -> np.ndarray | None:
    if model.problem_type == "regression":
        return None
    if model.problem_type == "multi_label":
        return outputs["scores"] >= 0.5
    return outputs["scores"].argmax(-1)


def _best(*names: str) -> Callable[..., np.ndarray]:
    """Makes a function that returns the index of the largest value for each text or token."""

    def decisions(model: Any, outputs: Mapping[str, np.ndarray], mask: np.ndarray) -> np.ndarray:
        best = (outputs[name].argmax(-1) for name in names)
        return np.concatenate([b[mask.astype(bool)] if b.ndim == 2 else b for b in best])

    return decisions


def _best_tags(model: Any, outputs: Mapping[str, np.ndarray], mask: np.ndarray) -> np.ndarray:
    if "tags" in outputs:
        return outputs["tags"][outputs["tags"] >= 0]
    return outputs["logits"].argmax(-1)[mask.astype(bool)]


def _replaced(model: Any, outputs: Mapping[str, np.ndarray], mask: np.ndarray) -> np.ndarray:
    return (outputs["logits"] > 0)[mask.astype(bool)]


TASK_OUTPUTS: dict[str, TaskOutputs] = {
    "encoder": TaskOutputs(_named),
    "masked_lm": TaskOutputs(_logits, decisions=_best("logits")),
    "multiple_choice": TaskOutputs(_one_choice),
    "next_sentence": TaskOutputs(_logits, decisions=_best("logits")),
    "pretraining": TaskOutputs(_named, decisions=_best("mlm_logits", "nsp_logits")),
    "replaced_token": TaskOutputs(_logits, decisions=_replaced),
    "classifier": TaskOutputs(_logits_and_scores, _best_label, _chosen_labels),
    "span_classifier": TaskOutputs(_named, decisions=_best("start_logits", "end_logits")),
    "embedder": TaskOutputs(_embedding),
    "token_classifier": TaskOutputs(_logits_and_tags, decisions=_best_tags),
}


def task_outputs_of(model: keras.Model) -> TaskOutputs:
    """Returns the entry of `TASK_OUTPUTS` for a model.

    Raises:
        InputError: if the model cannot be exported, with the reason.
    """
    task_outputs = TASK_OUTPUTS.get(task_of(model) or "")
    if task_outputs is None:
        raise InputError(
            f"A {type(model).__name__} cannot be exported; give one of {class_names(TASK_OUTPUTS)}."
        )
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            f"Keras runs on {keras.backend.backend()!r}, but export needs the backend TensorFlow; "
            "set the environment variable KERAS_BACKEND=tensorflow and load the model again."
        )
    return task_outputs


def check_exportable(model: keras.Model) -> None:
    """Checks that a model can be exported.

    Raises:
        InputError: if the model cannot be exported, with the reason.
    """
    task_outputs_of(model)
    if model.dtype_policy.compute_dtype != "float32":
        raise InputError(
            f"The model computes in {model.dtype_policy.name}, but export needs float32; "
            'load it with keras_bert.load(directory, dtype="float32").'
        )


def input_names(model: keras.Model) -> tuple[str, ...]:
    """Returns the names of the model's inputs, `[N, T]` int32 each."""
    return used_inputs(model.config)


def ids_function(
    model: keras.Model,
    batch: int | None = None,
    length: int | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Collection[str] | None = None,
    constants: Iterable[keras.Variable] = (),
) -> tf.types.experimental.PolymorphicFunction:
    """Makes a `tf.function` of the model: ids `[batch, length]` int32 to outputs by name.

    Args:
        model: the model.
        batch: the batch size if it is fixed; None for any.
        length: the number of tokens if it is fixed; None for any.
        inputs: names of the function's inputs, which may include unused ones; by default
            `input_names`.
        outputs: names of the outputs to keep; by default all.
        constants: weights that the graph holds as values, instead of reading variables.
    """
    task_outputs, used = task_outputs_of(model), input_names(model)
    names = inputs or used
    values = [(weight, weight.numpy()) for weight in constants]
    scope = keras.StatelessScope if values else contextlib.nullcontext

    @tf.function(
        input_signature=[tf.TensorSpec([batch, length], tf.int32, name=name) for name in names],
        autograph=False,
    )
    def ids(*arrays: tf.Tensor) -> Tensors:
        given = dict(zip(names, arrays, strict=True))
        with scope(values):
            found = task_outputs.outputs(model, {name: given[name] for name in used})
        return {name: _bfloat16_to_float32(found[name]) for name in outputs or found}

    return ids


def _bfloat16_to_float32(value: tf.Tensor) -> tf.Tensor:
    return tf.cast(value, tf.float32) if value.dtype == tf.bfloat16 else value


class Weights(tf.Module):
    """Holds each of a model's weights once.

    If a SavedModel tracked the Keras model itself, TensorFlow would store every weight twice.
    """

    def __init__(self, weights: Iterable[keras.Variable]):
        super().__init__()
        self.weights = [weight.value for weight in weights]


def ids_of(model: Any, texts: Any, length: int | None = None) -> dict[str, np.ndarray]:
    """Returns `token_ids`, `segment_ids` and `padding_mask`, `[N, T]` int32.

    Args:
        model: the model. Its preprocessor reads texts.
        texts: N texts; a tuple of two lists for pairs; or ids by name. `token_ids` alone are
            enough: then no token is padding.
        length: number of tokens T. Texts are cut or padded to this length; ids are padded. By
            default, the preprocessor chooses T for texts, and ids keep their length.

    Raises:
        InputError: if there are no texts, the model cannot take texts, or ids are longer or have
            different shapes.
    """
    if isinstance(texts, Mapping):
        ids = filled_up(_given(texts), length)
    else:
        preprocessor = getattr(model, "text_preprocessor", None)
        if preprocessor is None:
            raise InputError(
                f"This {type(model).__name__} has no preprocessor, so it cannot take texts; give "
                "token_ids and padding_mask [N, T] in a dictionary instead."
            )
        if length is not None:
            preprocessor = preprocessor.with_length(length, padding="max_length")
        ids = {name: np.asarray(array) for name, array in preprocessor(texts).items()}
    if not len(ids["token_ids"]):
        raise InputError("There are no texts; give at least one.")
    return ids


def longest_input(model: Any) -> int:
    """Returns the largest number of tokens T that the model's inputs `[N, T]` can have."""
    reads_windows = getattr(model, "windows", None) is not None
    return model.text_length if reads_windows else model.config.max_positions


def set_length(model: Any, length: int | None) -> None:
    """Sets the number of tokens that the model's texts are cut to, if a number is given.

    Raises:
        InputError: if the model takes fewer tokens.
    """
    if length is None:
        return
    if length > model.config.max_positions:
        raise InputError(
            f"The sequence length is {length}, but this model takes at most "
            f"{model.config.max_positions} tokens."
        )
    if getattr(model, "preprocessor", None) is not None:
        model.preprocessor = model.preprocessor.with_length(length)


def filled_up(ids: Arrays, length: int | None) -> dict[str, np.ndarray]:
    """Pads ids `[N, T]` to a length, if it is given.

    Raises:
        InputError: if the ids are longer.
    """
    tokens = next(iter(ids.values())).shape[1]
    if length is not None and tokens > length:
        raise InputError(
            f"The ids have {tokens} tokens, but the artifact takes {length}; give shorter ids."
        )
    missing = 0 if length is None else length - tokens
    return {name: np.pad(array, ((0, 0), (0, missing))) for name, array in ids.items()}


def without_padding(ids: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """Removes columns of ids `[N, T]` that are padding in every row, but keeps at least one."""
    lengths = tf.reduce_sum(ids["padding_mask"], axis=1)
    longest = tf.maximum(tf.reduce_max(lengths), 1)  # there may be no rows
    return {name: tf.convert_to_tensor(array)[:, :longest] for name, array in ids.items()}


def _given(arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if "token_ids" not in arrays:
        raise InputError(f"The ids hold {sorted(arrays)}, but need 'token_ids' [N, T].")
    token_ids = np.asarray(arrays["token_ids"], "int32")
    defaults = {
        "token_ids": token_ids,
        "segment_ids": np.zeros_like(token_ids),
        "padding_mask": np.ones_like(token_ids),
    }
    ids = {name: np.asarray(arrays.get(name, array), "int32") for name, array in defaults.items()}
    for name, array in ids.items():
        if array.ndim != 2 or array.shape != token_ids.shape:
            raise InputError(
                f"{name} have the shape {array.shape}, but all ids need the same shape [N, T]."
            )
    return ids
