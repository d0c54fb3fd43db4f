"""Builds signatures that take texts, with the operators of TFLite and tensorflow-text.

The tokenizers run as in TensorFlow, so the answers are the same as the model's. A program that
opens such a file must register the operators: `tensorflow_text.tflite_registrar.SELECT_TFTEXT_OPS`.
"""

import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.errors import InputError
from keras_bert.export._tflite import byte_pair
from keras_bert.export.signatures import (
    WITHOUT_TEXT,
    Tensors,
    Weights,
    input_names,
    task_outputs_of,
)
from keras_bert.tasks.registry import task_of
from keras_bert.text.characters import characters_before, follow, row_ids
from keras_bert.text.preprocessor import layout

logger = logging.getLogger(__name__)

TOP_K = 5
"""Number of tokens that `fill_mask` gives for a mask."""


class TextSignature(NamedTuple):
    """A signature that takes texts and gives answers.

    Args:
        name: name of the signature.
        inputs: names of the inputs, strings `[N]` each.
        answer: function of the model, its `PhoneTokenizer`, the sequence length and the inputs.
            Returns the outputs.
    """

    name: str
    inputs: tuple[str, ...]
    answer: Callable[..., Tensors]


class PhoneTokenizer:
    """A model's tokenizer, with only operators that TFLite has.

    Args:
        tokenizer: a model's tokenizer.

    Raises:
        InputError: if TFLite lacks operators for the tokenizer.
    """

    def __init__(self, tokenizer: Any) -> None:
        if tokenizer.kind != "byte_pair":
            tokenizer.refuse_added_tokens("A TFLite file", WITHOUT_TEXT)
        reason = _REASONS[tokenizer.kind](tokenizer)
        if reason:
            raise InputError(
                f"A TFLite file cannot take texts for this model: {reason}. {WITHOUT_TEXT}."
            )
        self._tokenizer = tokenizer
        has_byte_pairs = tokenizer.kind == "byte_pair"
        self._byte_pair = byte_pair.PhoneBytePair(tokenizer) if has_byte_pairs else None
        self.vocabulary = tokenizer.vocabulary
        self.has_offsets = tokenizer.kind != "sentencepiece"

    def tokenize(self, texts: tf.Tensor, *, before_mask: bool = False) -> tf.RaggedTensor:
        """Returns ids int32 `[N, (tokens)]` of texts `[N]`.

        Args:
            texts: the texts.
            before_mask: whether a mask follows. It may include the white space before it.
        """
        if self._byte_pair:
            return self._byte_pair.tokenize(texts, before_mask=before_mask)
        if self._tokenizer.kind == "wordpiece":
            return self._tokenizer.tokenize(texts)
        # The operator gets the whole text and adds scores in single precision, so it finds wrong
        # pieces in texts of megabytes (see `text/sentencepiece/tokenizer.py`).
        pieces = self._tokenizer.fast_operation.tokenize(texts)
        return pieces.with_values(tf.gather(self._tokenizer.ids_of_pieces, pieces.values))

    def tokenize_with_offsets(self, texts: tf.Tensor) -> tuple[tf.RaggedTensor, ...]:
        """Returns ids, and the start and end of each token in characters (code points)."""
        if self._byte_pair:
            return self._byte_pair.tokenize_with_offsets(texts)
        normalized, byte_map = self._tokenizer.normalizer.normalize_with_offsets(texts)
        ids, starts, ends = self._tokenizer.pieces(normalized)
        return ids, *_in_characters(texts, byte_map, starts, ends)


def _in_characters(
    texts: tf.Tensor, byte_map: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
    """Does the same as `text.characters.to_characters`, with operators that TFLite has."""
    import tensorflow_text as tf_text

    data = tf_text.ByteSplitter().split(texts)
    characters = characters_before(data.values)
    return follow(byte_map, starts, ends, row_ids(starts), data.row_starts(), characters)


def _wordpiece_reason(tokenizer: Any) -> str:
    if tokenizer.split_cjk:
        return ""
    return "without split_cjk, its tokenizer needs a regular expression to find words"


def _sentencepiece_reason(tokenizer: Any) -> str:
    if tokenizer.fast_operation is not None:
        return ""
    return "tensorflow-text's operator knows only SentencePiece unigram models without bytes"


_REASONS: dict[str, Callable[[Any], str]] = {
    "wordpiece": _wordpiece_reason,
    "sentencepiece": _sentencepiece_reason,
    "byte_pair": byte_pair.reason,
}
"""For each kind of tokenizer, a function that returns why a file cannot contain it, or ""."""


def phone_tokenizer(model: Any) -> PhoneTokenizer:
    """Makes the tokenizer for the file of a model.

    Raises:
        InputError: if there is no preprocessor, or TFLite cannot run its tokenizer.
    """
    if getattr(model, "preprocessor", None) is None:
        raise InputError(
            f"This {type(model).__name__} has no preprocessor, so its file cannot take texts; "
            "leave out `text`."
        )
    tokenizer = PhoneTokenizer(model.preprocessor.tokenizer)
    if task_of(model) in ("span_classifier", "token_classifier") and not tokenizer.has_offsets:
        raise InputError(
            f"A TFLite file cannot take texts for this {type(model).__name__}: tensorflow-text's "
            "operator for SentencePiece does not return the positions of tokens. Leave out "
            "`text` and give the file ids, or take the SavedModel."
        )
    return tokenizer


def text_functions(
    model: Any, length: int | None = None, batch: int | None = None
) -> dict[str, Any]:
    """Makes a function for each signature that takes texts; the keys are the signatures' names.

    Args:
        model: a model with preprocessor.
        length: number of tokens of every text, by default the preprocessor's. Longer texts are cut.
        batch: the batch size if it is fixed, else None.

    Raises:
        InputError: if TFLite cannot run the model's tokenizer.
    """
    tokenizer = phone_tokenizer(model)
    if getattr(model.preprocessor.tokenizer, "normalization", "") == "nfc":
        logger.warning(
            "The TFLite file does not compose characters (NFC), as the model's tokenizer does. "
            "Give it composed texts, for example by java.text.Normalizer or by Swift's "
            "precomposedStringWithCanonicalMapping."
        )
    length = length or model.preprocessor.sequence_length

    def function(signature: TextSignature) -> Any:
        def answer(*texts: tf.Tensor) -> Tensors:
            return signature.answer(model, tokenizer, length, *texts)

        specifications = [tf.TensorSpec([batch], tf.string, name=n) for n in signature.inputs]
        return tf.function(answer, input_signature=specifications, autograph=False)

    return {
        signature.name: function(signature)
        for signature in SIGNATURES.get(task_of(model) or "", ())
    }


def _pack(
    model: Any, segments: Sequence[tf.RaggedTensor], length: int, offsets: Sequence[Any] = ()
) -> tuple[Tensors, Tensors]:
    """Packs segments of ids into the model's inputs, and packs the offsets of the last segment."""
    preprocessor = model.preprocessor
    packed = layout(segments, length, **preprocessor.separators)
    inputs = packed.inputs(segments, preprocessor.vocabulary, preprocessor.num_segments)
    others = [segment.with_values(tf.fill(tf.shape(segment.values), -1)) for segment in segments]
    places = {
        name: packed.gather([*others[:-1], values], (-1, -1, -1))
        for name, values in zip(("starts", "ends"), offsets, strict=False)
    }
    return inputs, places


def _run(model: Any, inputs: Tensors) -> Tensors:
    task = task_outputs_of(model)
    outputs = task.outputs(model, {name: inputs[name] for name in input_names(model)})
    return outputs | task.answers(model, outputs)


def _answers(model: Any, tokenizer: PhoneTokenizer, length: int, *texts: tf.Tensor) -> Tensors:
    """Returns the outputs for the ids of texts, and the names of labels."""
    inputs, _ = _pack(model, [tokenizer.tokenize(text) for text in texts], length)
    return _run(model, inputs)


def _located(model: Any, tokenizer: PhoneTokenizer, length: int, *texts: tf.Tensor) -> Tensors:
    """Returns the outputs of `_answers`, and `starts` and `ends` `[N, T]` int32.

    These are the tokens' positions in the last text, in characters (code points). Tokens outside
    the last text have -1. If the tokenizer gives no positions, both outputs are left out.
    """
    if not tokenizer.has_offsets:
        return _answers(model, tokenizer, length, *texts)
    ids, *offsets = tokenizer.tokenize_with_offsets(texts[-1])
    before = [tokenizer.tokenize(text) for text in texts[:-1]]
    inputs, places = _pack(model, [*before, ids], length, offsets)
    return _run(model, inputs) | places


def _filled(
    model: Any, tokenizer: PhoneTokenizer, length: int, before: tf.Tensor, after: tf.Tensor
) -> Tensors:
    """Predicts the likeliest tokens of a mask between two texts: `tokens`, `scores` `[N, TOP_K]`.

    If the text before the mask leaves no room for the mask, the tokens are "" and the scores -1.
    """
    vocabulary = tokenizer.vocabulary
    left, right = tokenizer.tokenize(before, before_mask=True), tokenizer.tokenize(after)
    inputs, _ = _pack(model, [_around(left, vocabulary.mask_id, right)], length)
    place = tf.cast(left.row_lengths(), tf.int32)[:, tf.newaxis] + 1
    positions = tf.minimum(place, length - 1)
    outputs = model({**inputs, "masked_positions": positions}, training=False)
    logits = outputs["mlm_logits"] if isinstance(outputs, dict) else outputs
    probabilities = tf.nn.softmax(logits[:, 0, : len(vocabulary)])
    scores, best = tf.math.top_k(probabilities, min(TOP_K, len(vocabulary)))
    readable = model.preprocessor.tokenizer.readable
    names = np.array([*(readable(index) for index in range(len(vocabulary))), ""], object)
    seen = tf.broadcast_to(place < length - 1, tf.shape(best))
    return {
        "tokens": tf.gather(names, tf.where(seen, best, len(vocabulary))),
        "scores": tf.where(seen, scores, -1.0),
    }


def _around(left: tf.RaggedTensor, token: int, right: tf.RaggedTensor) -> tf.RaggedTensor:
    """Joins the ids of two texts with a token between them, `[N, (tokens)]`."""
    left, right = (x.with_row_splits_dtype(tf.int64) for x in (left, right))
    lefts, rights = left.row_lengths(), right.row_lengths()
    splits = tf.concat([[0], tf.cumsum(lefts + rights + 1)], axis=0)
    places = tf.RaggedTensor.from_row_splits(tf.range(splits[-1]), splits, validate=False)
    row = row_ids(places)
    place = places.values - tf.gather(splits, row)
    after = place - tf.gather(lefts, row)  # 0 at the token between the texts
    count = tf.size(left.values, tf.int64)
    from_left = tf.gather(left.row_starts(), row) + place
    from_right = tf.gather(right.row_starts(), row) + after - 1 + count
    source = tf.where(after < 0, from_left, from_right)
    source = tf.where(tf.equal(after, 0), count + tf.size(right.values, tf.int64), source)
    values = tf.concat([left.values, right.values, [token]], axis=0)
    return places.with_values(tf.gather(values, source))


def _one(answer: Callable[..., Tensors]) -> TextSignature:
    return TextSignature("serving_default", ("text",), answer)


def _two(answer: Callable[..., Tensors]) -> TextSignature:
    return TextSignature("text_pair", ("text", "text_pair"), answer)


_FILL = TextSignature("fill_mask", ("before", "after"), _filled)

SIGNATURES: dict[str, tuple[TextSignature, ...]] = {
    "encoder": (_one(_answers), _two(_answers)),
    "masked_lm": (_FILL,),
    "multiple_choice": (_two(_answers),),
    "next_sentence": (_two(_answers),),
    "pretraining": (_FILL, _two(_answers)),
    "replaced_token": (_one(_located),),
    "classifier": (_one(_answers), _two(_answers)),
    "span_classifier": (TextSignature("question_answer", ("question", "context"), _located),),
    "embedder": (_one(_answers),),
    "token_classifier": (_one(_located),),
}


@contextlib.contextmanager
def text_converter(functions: Mapping[str, Any], model: Any) -> Iterator[Any]:
    """Makes a `tf.lite.TFLiteConverter` of functions of texts, one signature for each function."""
    module = Weights(model.weights)
    for name, function in functions.items():
        setattr(module, name, function)
    with tempfile.TemporaryDirectory() as directory:
        tf.saved_model.save(module, directory, signatures=dict(functions))
        converter = tf.lite.TFLiteConverter.from_saved_model(
            directory, signature_keys=list(functions)
        )
        converter.allow_custom_ops = True
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        yield converter
