"""Answers questions from contexts in a graph, as `SpanClassifier.predict_text` does."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert.export._saved_model.windows import Windows, through, windows
from keras_bert.tasks.answers import MAX_ANSWER_TOKENS, N_BEST
from keras_bert.text.characters import Characters, characters_of
from keras_bert.text.words.in_graph import strip

Tensors = dict[str, tf.Tensor]


def answer_questions(
    model: Any, spans: Any, names: tuple[str, ...], questions: tf.Tensor, contexts: tf.Tensor
) -> Tensors:
    """Answers questions from contexts of any length.

    Args:
        model: a `SpanClassifier`.
        spans: the function of `best_spans`.
        names: names of the model's inputs.
        questions: strings `[N]`.
        contexts: strings `[N]`.

    Returns:
        `answer` string, `start` and `end` int32 (characters of the context), `score` float32,
        `[N]` each. If a question has no answer: "", 0, 0, and the probability of no answer.
    """
    shown = windows(model.preprocessor, contexts, questions)
    arrays = [shown.inputs[name] for name in names]
    found = through(spans, [*arrays, shown.is_max_context, shown.starts >= 0])
    count = tf.size(contexts)
    answers = _different(_candidates(shown, found, characters_of(contexts)))

    null_scores = tf.math.unsorted_segment_min(found["null_scores"], shown.sample_ids, count)
    place = tf.stack([answers.sample_ids, answers.ranks], axis=1)
    scores = tf.tensor_scatter_nd_update(
        tf.fill(tf.stack([count, N_BEST]), -np.inf), place, answers.scores
    )
    is_none = tf.math.is_inf(scores[:, 0])  # an empty context
    null_counts = is_none
    if model.null_threshold is not None:
        is_none |= null_scores - scores[:, 0] > model.null_threshold
        null_counts = tf.ones_like(is_none)
    null = tf.where(null_counts, null_scores, -np.inf)[:, tf.newaxis]
    probabilities = tf.nn.softmax(tf.concat([scores, null], axis=1))

    best = tf.searchsorted(answers.sample_ids, tf.range(count))  # first answer of each question
    texts, starts, ends = (
        tf.gather(tf.concat([values, [none]], axis=0), best)
        for values, none in ((answers.texts, ""), (answers.starts, 0), (answers.ends, 0))
    )
    return {
        "answer": tf.where(is_none, "", texts),
        "start": tf.where(is_none, 0, starts),
        "end": tf.where(is_none, 0, ends),
        "score": tf.where(is_none, probabilities[:, -1], probabilities[:, 0]),
    }


def best_spans(ids: Any, names: tuple[str, ...]) -> Callable[..., Tensors]:
    """Makes a function that finds the best spans in each of R windows of T tokens.

    The function's inputs `[R, T]` are the int32 inputs of `ids`, and two bool masks: tokens that
    may begin and tokens that may end an answer. Its outputs are `scores`, `first` token and `last`
    token of the best `N_BEST` spans, `[R, N_BEST]` each, and `null_scores` `[R]`, the scores of "no
    answer". If a window has fewer than `N_BEST` spans, the other scores are -inf.
    """
    kinds = [tf.int32] * len(names) + [tf.bool] * 2

    @tf.function(input_signature=[tf.TensorSpec([None, None], k) for k in kinds], autograph=False)
    def spans(*arrays: tf.Tensor) -> Tensors:
        *inputs, may_begin, may_end = arrays
        logits = ids(*inputs)
        starts = tf.where(may_begin, logits["start_logits"], -np.inf)
        ends = tf.where(may_end, logits["end_logits"], -np.inf)
        ends = tf.pad(ends, [[0, 0], [0, MAX_ANSWER_TOKENS - 1]], constant_values=-np.inf)
        rows, length = tf.unstack(tf.shape(starts))
        last = tf.range(length)[:, tf.newaxis] + tf.range(MAX_ANSWER_TOKENS)
        pairs = starts[:, :, tf.newaxis] + tf.gather(ends, last, axis=1)
        pairs = tf.reshape(pairs, [rows, length * MAX_ANSWER_TOKENS])
        scores, places = tf.math.top_k(pairs, N_BEST)
        first = places // MAX_ANSWER_TOKENS
        return {
            "scores": scores,
            "first": first,
            "last": first + places % MAX_ANSWER_TOKENS,
            "null_scores": logits["start_logits"][:, 0] + logits["end_logits"][:, 0],
        }

    return spans


class _Spans(NamedTuple):
    """Candidates for answers, sorted by context; X is the number of candidates.

    Within a context, the best candidate comes first.
    """

    sample_ids: tf.Tensor
    """Index of each candidate's question, int32 `[X]`."""
    scores: tf.Tensor
    texts: tf.Tensor
    starts: tf.Tensor
    """Positions in the context, in characters, int32 `[X]`."""
    ends: tf.Tensor
    ranks: tf.Tensor
    """Rank among the candidates of the context, from 0 on, int32 `[X]`. Set by `_different`."""


def _candidates(shown: Windows, found: Tensors, characters: Characters) -> _Spans:
    """Returns all candidates, without white space at their ends."""
    place = tf.where(found["scores"] > -np.inf)  # row and rank
    row = place[:, 0]
    scores, first, last = (tf.gather_nd(found[name], place) for name in ("scores", "first", "last"))
    sample_ids = tf.gather(shown.sample_ids, row)
    starts, ends = (
        tf.gather_nd(values, tf.stack([row, tf.cast(token, tf.int64)], axis=1))
        for values, token in ((shown.starts, first), (shown.ends, last))
    )
    order = _sorted(ends, starts, -scores, sample_ids)
    sample_ids, scores, starts, ends = (
        tf.gather(x, order) for x in (sample_ids, scores, starts, ends)
    )
    before, after = (tf.gather(characters.begins, sample_ids + i) for i in (0, 1))
    starts, ends = (tf.minimum(x + before, after - 1) for x in (starts, ends))
    starts, ends = strip(characters, starts, ends)
    texts = characters.pieces(starts, ends)
    ranks = tf.zeros_like(sample_ids)
    return _Spans(sample_ids, scores, texts, starts - before, ends - before, ranks)


def _different(spans: _Spans) -> _Spans:
    """Removes empty answers and, in each context, repeated texts and all but the `N_BEST` best."""
    spans = _chosen(spans, tf.not_equal(spans.texts, ""))
    with_sample = tf.strings.join([tf.strings.as_string(spans.sample_ids), ":", spans.texts])
    distinct, index = tf.unique(with_sample)
    number = tf.range(tf.size(index))
    earliest = tf.math.unsorted_segment_min(number, index, tf.size(distinct))
    spans = _chosen(spans, tf.equal(tf.gather(earliest, index), number))
    ranks = tf.range(tf.size(spans.sample_ids)) - tf.searchsorted(
        spans.sample_ids, spans.sample_ids
    )
    return _chosen(spans._replace(ranks=ranks), ranks < N_BEST)


def _chosen(spans: _Spans, mask: tf.Tensor) -> _Spans:
    return _Spans(*(tf.boolean_mask(values, mask) for values in spans))


def _sorted(*keys: tf.Tensor) -> tf.Tensor:
    """Returns the order `[X]` by the last key, then by the key before it, and so on."""
    order = tf.range(tf.size(keys[0]))
    for key in keys:
        order = tf.gather(order, tf.argsort(tf.gather(key, order), stable=True))
    return order
