"""Converts the logits of tokens, in overlapping windows of texts, to tags of words and entities."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from keras_bert.layers.crf import ConditionalRandomField
from keras_bert.tasks.entities import spans_of

if TYPE_CHECKING:  # keras_bert.text needs TensorFlow, but a task does not
    from keras_bert.text.rows import Rows
    from keras_bert.text.words import Words

OUTSIDE = "O"
LONGEST_PATH = 1024  # words in one sequence of the CRF; the cost grows with the square of this
_LOGITS_AT_ONCE = 1 << 22  # largest number of logits in a batch of the CRF


def tag_words(
    rows: Rows,
    words: Sequence[Words],
    logits: Sequence[np.ndarray],
    labels: Sequence[str],
    crf: ConditionalRandomField | None = None,
) -> tuple[list[list[str]], list[np.ndarray]]:
    """Returns tags of the words of N texts.

    The tag of a word is the label of its first token, in the window that gives this token the most
    context. A CRF takes all words of a text as one sequence, across the borders of windows. A text
    of more than 1024 words is divided into several sequences.

    Args:
        rows: rows of the texts, with offsets.
        words: words of the texts.
        logits: logits of the rows, each `[T, L]`.
        labels: names of the L labels.
        crf: CRF that chooses all tags of a sequence together. None takes each word's likeliest
            label.

    Returns:
        The tags of each text and their probabilities. A word without tokens has the tag "O" and
        the probability 1.
    """
    from keras_bert.text.rows import splits_of
    from keras_bert.text.words import first_tokens

    tokens = first_tokens(rows, words)
    known = np.flatnonzero(tokens >= 0)
    splits = splits_of([len(of_text) for of_text in words])
    tags = np.full(len(tokens), OUTSIDE, object)
    scores = np.ones(len(tokens))
    if len(known):
        of_words = np.concatenate(logits)[tokens[known]]
        if crf is None:
            ids, scores[known] = _likeliest(of_words)
        else:
            ids, scores[known] = _path(of_words, _path_numbers(np.diff(splits))[known], crf)
        tags[known] = np.array(labels, object)[ids]
    parts = [slice(*ends) for ends in itertools.pairwise(splits)]
    return [tags[part].tolist() for part in parts], [scores[part] for part in parts]


def _path_numbers(lengths: np.ndarray) -> np.ndarray:
    """Returns the number `[W]` of each word's CRF sequence, from the texts' lengths `[N]`."""
    from keras_bert.text.rows import numbers_of

    text = np.repeat(np.arange(len(lengths)), lengths)
    part = numbers_of(lengths) // LONGEST_PATH
    return text * (part.max(initial=0) + 1) + part


def _likeliest(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns labels and their probabilities, `[W]`, of logits `[W, L]`."""
    return _chosen(ops.convert_to_numpy(ops.softmax(logits)), logits.argmax(-1))


def _path(
    logits: np.ndarray, path: np.ndarray, crf: ConditionalRandomField
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the CRF's labels and probabilities `[W]`.

    Args:
        logits: `[W, L]`.
        path: `[W]`, sorted: number of each word's sequence.
        crf: the CRF.
    """
    ids, scores = np.zeros(len(path), int), np.zeros(len(path))
    _, begins, counts = np.unique(path, return_index=True, return_counts=True)
    order = np.argsort(counts, kind="stable")
    size = max(1, _LOGITS_AT_ONCE // (counts.max() * logits.shape[-1]))
    for first in range(0, len(order), size):
        chosen = order[first : first + size]
        mask = np.arange(counts[chosen].max()) < counts[chosen, np.newaxis]  # [B, words]
        word = np.where(mask, begins[chosen, np.newaxis] + np.arange(mask.shape[1]), 0)
        labels, marginals = crf.predict(logits[word], mask)
        word = word[mask]
        ids[word], scores[word] = _chosen(marginals[mask], labels[mask])
    return ids, scores


def _chosen(probabilities: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the label ids `[W]` and their entries in the probabilities `[W, L]`."""
    return ids, np.take_along_axis(probabilities, ids[:, np.newaxis], -1)[:, 0]


def entities_of(
    text: str,
    words: Words,
    tags: Sequence[str],
    scores: Sequence[float] | np.ndarray,
    *,
    number_words: bool = False,
) -> list[dict[str, Any]]:
    """Returns the entities that the tags of a text's words mark.

    Args:
        text: the text.
        words: W words of the text.
        tags: tags of the words.
        scores: probabilities of the tags.
        number_words: whether an entity has `words`: the indices of its first word and of the word
            after its last.

    Returns:
        Dictionaries: `label`; `start` and `end`, positions of characters; `text`, the slice of the
        text between them; and `score`, the mean of the words' scores.
    """
    entities = []
    for label, first, end in spans_of(tags):
        start, stop = words[first][0], words[end - 1][1]
        entity = {"label": label, "start": start, "end": stop, "text": text[start:stop]}
        entity["score"] = float(np.mean(scores[first:end]))
        if number_words:
            entity["words"] = [first, end]
        entities.append(entity)
    return entities
