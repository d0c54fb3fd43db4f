"""Texts with masks in, the likeliest tokens out, in a graph: `fill_mask`."""

from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.export.ids import without_padding

Tensors = dict[str, tf.Tensor]


def fill_masks(model: Any, top_k: int, texts: tf.Tensor) -> Tensors:
    """The likeliest tokens for every mask of texts.

    Args:
        model: a `MaskedLanguageModel` or `PretrainingModel`.
        top_k: tokens for each mask.
        texts: strings `[N]`; masks beyond the model's length are cut off with the rest.

    Returns:
        `tokens` string and `scores` float32 `[N, M, top_k]`, M being the largest number of masks
        in a text; in texts of fewer, and of none, the rest are "" and -1.
    """
    preprocessor = model.preprocessor
    vocabulary, readable = preprocessor.vocabulary, preprocessor.tokenizer.readable
    names = np.array([readable(index) for index in range(len(vocabulary))], object)
    inputs = without_padding(preprocessor(texts, allow_special_tokens=True))
    is_mask = tf.equal(inputs["token_ids"], vocabulary.mask_id)
    counts = tf.reduce_sum(tf.cast(is_mask, tf.int32), axis=1)
    places = tf.cast(tf.where(is_mask)[:, 1], tf.int32)
    positions = tf.RaggedTensor.from_row_lengths(places, counts, validate=False).to_tensor()
    # The head needs one position or more.
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
