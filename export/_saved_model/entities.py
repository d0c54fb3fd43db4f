"""Finds the entities of texts in a graph, as `TokenClassifier.predict_text` does."""

from typing import Any

import numpy as np
import tensorflow as tf

from keras_bert.export._saved_model.windows import Windows, row_of, through, windows
from keras_bert.tasks.entities import spans_of
from keras_bert.tasks.windowed_words import LONGEST_PATH, OUTSIDE
from keras_bert.text.characters import Characters, characters_of
from keras_bert.text.words.in_graph import split_words

Tensors = dict[str, tf.Tensor]
FILLING: dict[str, Any] = {"entities": "", "labels": "", "starts": -1, "ends": -1, "scores": -1.0}
"""Padding value of each output, for texts that have fewer entities than others."""


def find_entities(model: Any, ids: Any, names: tuple[str, ...], texts: tf.Tensor) -> Tensors:
    """Finds the entities of texts of any length.

    Args:
        model: a `TokenClassifier`.
        ids: the model as a function of ids.
        names: names of the function's inputs.
        texts: strings `[N]`.

    Returns:
        The outputs of `ids` for the first window of each text, and the entities `[N, E]`, with E
        the largest number of entities in a text: `entities` and `labels` string, `starts` and
        `ends` int32 (characters), `scores` float32. Rows are padded with `FILLING`.
    """
    shown = windows(model.preprocessor, texts)
    outputs = through(ids, [shown.inputs[name] for name in names])
    characters = characters_of(texts)
    starts, ends, splits = split_words(characters)
    logits = tf.reshape(outputs["logits"], [-1, model.num_labels])
    tokens = _first_tokens(shown, characters, starts, ends)
    tags, scores = _tag_words(model, tokens, logits, splits)

    before = tf.concat([[model.num_labels], tags], axis=0)[:-1]
    text = row_of(splits)
    same_text = tf.equal(tf.concat([[-1], text], axis=0)[:-1], text)
    labels, goes_on_from = _reading(model.labels)
    goes_on = tf.gather_nd(goes_on_from, tf.stack([before, tags], axis=1)) & same_text
    begins = tf.not_equal(tf.gather(labels, tags), "") & ~goes_on
    entities = tf.pad(
        tf.cumsum(tf.cast(begins, tf.int32)), [[1, 0]]
    )  # number of entities before each word
    owner = tf.where(
        begins | goes_on, entities[1:] - 1, -1
    )  # words with a negative owner are left out
    first = tf.where(begins)[:, 0]
    begin, end = tf.gather(starts, first), tf.math.unsorted_segment_max(ends, owner, entities[-1])
    before_text = tf.gather(characters.begins, tf.gather(text, first))
    # In float32 the mean of an entity of 200,000 words would be off by up to 1e-3.
    means = tf.math.unsorted_segment_mean(tf.cast(scores, tf.float64), owner, entities[-1])
    found = {
        "entities": characters.pieces(begin, end),
        "labels": tf.gather(labels, tf.gather(tags, first)),
        "starts": begin - before_text,
        "ends": end - before_text,
        "scores": tf.cast(means, scores.dtype),
    }
    of_texts = tf.gather(entities, splits)
    padded = {
        name: tf.RaggedTensor.from_row_splits(values, of_texts, validate=False).to_tensor(
            FILLING[name]
        )
        for name, values in found.items()
    }
    return {name: tf.gather(values, shown.first) for name, values in outputs.items()} | padded


def _first_tokens(
    shown: Windows, characters: Characters, starts: tf.Tensor, ends: tf.Tensor
) -> tf.Tensor:
    """Returns each word's first token, as `words.first_tokens` does.

    The result, int64 `[W]`, is the token's index in the flattened windows `[R * T]`. Padding
    counts, too. A word without a token has -1.
    """
    tokens = tf.where(tf.reshape(shown.is_max_context, [-1]))[:, 0]
    before_text = tf.gather(characters.begins, shown.sample_ids)[:, tf.newaxis]
    token_starts, token_ends = (
        tf.gather(tf.reshape(x + before_text, [-1]), tokens) for x in (shown.starts, shown.ends)
    )
    word = tf.searchsorted(ends, token_starts, side="right")
    word_starts = tf.gather(tf.concat([starts, [tf.int32.max]], axis=0), word)
    inside = word_starts < token_ends
    first = tf.math.unsorted_segment_min(tokens, tf.where(inside, word, -1), tf.size(ends))
    return tf.where(first == tf.int64.max, tf.cast(-1, tf.int64), first)


def _tag_words(
    model: Any, tokens: tf.Tensor, logits: tf.Tensor, splits: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns labels int32 and probabilities, `[W]` each, as `windowed_words.tag_words` does.

    A word without a token has the label id L and the probability 1. The model's own ids are 0 to
    L - 1.
    """
    known = tf.where(tokens >= 0)
    logits = tf.gather(logits, tf.gather_nd(tokens, known))
    if model.crf is None:
        ids = tf.argmax(logits, axis=-1, output_type=tf.int32)
        probabilities = tf.nn.softmax(logits)
        scores = tf.gather(probabilities, ids, batch_dims=1)
    else:
        text = row_of(splits)
        part = (tf.range(splits[-1]) - tf.gather(splits, text)) // LONGEST_PATH
        path = tf.gather_nd(text * (tf.reduce_max(tf.pad(part, [[0, 1]])) + 1) + part, known)
        ids, scores = _likeliest_paths(model.crf, logits, path)
    count = tf.shape(tokens)
    return (
        tf.tensor_scatter_nd_update(tf.fill(count, model.num_labels), known, ids),
        tf.tensor_scatter_nd_update(tf.ones(count), known, scores),
    )


def _likeliest_paths(crf: Any, logits: tf.Tensor, path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the likeliest labels of K words and their probabilities, `[K]` each.

    `path` `[K]` holds, for each word, the index of its sequence. The values never decrease.
    """
    _, row, counts = tf.unique_with_counts(path)
    column = tf.range(tf.size(row)) - tf.gather(tf.cumsum(counts, exclusive=True), row)
    place = tf.stack([row, column], axis=1)
    # The loops of the CRF need at least one step.
    longest = tf.reduce_max(tf.concat([counts, [1]], axis=0))
    shape = tf.stack([tf.maximum(tf.size(counts), 1), longest])
    table = tf.scatter_nd(place, logits, tf.concat([shape, [crf.num_labels]], axis=0))
    table = tf.ensure_shape(table, [None, None, crf.num_labels])
    mask = tf.scatter_nd(place, tf.ones_like(row), shape)
    ids = tf.gather_nd(crf.decode(table, mask), place)
    marginals = tf.gather_nd(crf.marginals(table, mask), place)
    return ids, tf.gather(marginals, ids, batch_dims=1)


def _reading(labels: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Makes two tables from `spans_of`. Their last entries are for words without a token.

    Returns:
        Label of each tag's entity, "" outside entities, string `[L + 1]`; whether a tag (column)
        continues the entity of the tag before it (row), bool `[L + 1, L + 1]`.
    """
    tags = (*labels, OUTSIDE)
    names = ["".join(label for label, _, _ in spans_of([tag])) for tag in tags]
    goes_on = [
        [spans_of([before, tag]) == [(name, 0, 2)] for tag in tags]
        for before, name in zip(tags, names, strict=True)
    ]
    return np.array(names, object), np.array(goes_on)
