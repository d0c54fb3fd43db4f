"""BERT's limit on the length of a word, in characters.

tf.text's operation limits bytes. Told a limit that no word of few enough characters exceeds, it
lets some longer words pass; their pieces are found here by adding up their characters.
"""

from __future__ import annotations

import tensorflow as tf

MOST_BYTES_PER_CHARACTER = 4


def limit_words(
    ids: tf.RaggedTensor,
    starts: tf.RaggedTensor,
    ends: tf.RaggedTensor,
    *,
    begins_word: tf.Tensor,
    characters: tf.Tensor,
    limit: int,
    unknown_id: int,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Puts one unknown token for all the pieces of a word of more than `limit` characters.

    Args:
        ids: int32 `[N, (tokens)]`.
        starts: where each token starts, `[N, (tokens)]`.
        ends: where it ends.
        begins_word: bool `[V]`, which tokens are the first of a word.
        characters: int32 `[V]`, characters of each token.
        limit: the most characters of a word.
        unknown_id: what stands for a longer word.

    Returns:
        Ids, starts and ends, with fewer tokens where a word was too long.
    """
    begins = tf.gather(begins_word, ids.values)
    word = tf.cumsum(tf.cast(begins, tf.int32)) - 1  # of each token
    too_long = tf.math.segment_sum(tf.gather(characters, ids.values), word) > limit

    def unchanged() -> tuple[tf.Tensor, ...]:
        return ids.values, starts.values, ends.values, ids.row_splits

    def collapsed() -> tuple[tf.Tensor, ...]:
        inside = tf.gather(too_long, word)
        kept = begins | ~inside
        kept_before = tf.pad(tf.cumsum(tf.cast(kept, tf.int64)), [[1, 0]])
        word_ends = tf.gather(tf.math.segment_max(ends.values, word), word)
        return (
            tf.where(inside, unknown_id, ids.values)[kept],
            starts.values[kept],
            tf.where(inside, word_ends, ends.values)[kept],
            tf.gather(kept_before, ids.row_splits),
        )

    *flat, row_splits = tf.cond(tf.reduce_any(too_long), collapsed, unchanged)
    ids, starts, ends = (
        tf.RaggedTensor.from_row_splits(values, row_splits, validate=False) for values in flat
    )
    return ids, starts, ends
