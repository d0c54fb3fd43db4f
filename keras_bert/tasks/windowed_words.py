"""From the scores of tokens, in windows on texts, to labels of words and to entities."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from keras_bert.layers.crf import ConditionalRandomField
from keras_bert.tasks.entities import spans_of

if TYPE_CHECKING:  # text needs TensorFlow, and a task does not
    from keras_bert.text.rows import Rows
    from keras_bert.text.words import Words

OUTSIDE = "O"
LONGEST_PATH = 1024  # words; what finding one costs grows with the square
_LOGITS_AT_ONCE = 1 << 22


def tag_words(
    rows: Rows,
    words: Sequence[Words],
    logits: Sequence[np.ndarray],
    labels: Sequence[str],
    crf: ConditionalRandomField | None = None,
) -> tuple[list[list[str]], list[np.ndarray]]:
    """Labels of the words of N texts.

    A word has the label of its first token, in the window in which that has most context. A
    CRF sees the words of a text one after the other, wherever windows end; only texts of
    more than 1024 words are cut for it.

    Args:
        rows: of the texts, with offsets.
        words: of the texts.
        logits: of the rows, each `[T, L]`.
        labels: L names.
        crf: chooses labels for all words of a text together; None: each has its likeliest.

    Returns:
        The tags of each text and their probabilities. A word of which no token is left has the
        tag "O" and the probability 1.
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
    """Returns the number of each word's path `[W]`, from the texts' lengths `[N]`."""
    from keras_bert.text.rows import numbers_of

    text = np.repeat(np.arange(len(lengths)), lengths)
    part = numbers_of(lengths) // LONGEST_PATH
    return text * (part.max(initial=0) + 1) + part


def _likeliest(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Labels and their probabilities, `[W]`, of logits `[W, L]`."""
    return _chosen(ops.convert_to_numpy(ops.softmax(logits)), logits.argmax(-1))


def _path(
    logits: np.ndarray, path: np.ndarray, crf: ConditionalRandomField
) -> tuple[np.ndarray, np.ndarray]:
    """The same by the CRF, for words that stand in the paths `[W]`, in their order."""
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
    """Labels `[W]` and their probabilities among `[W, L]`."""
    return ids, np.take_along_axis(probabilities, ids[:, np.newaxis], -1)[:, 0]


def entities_of(
    text: str,
    words: Words,
    tags: Sequence[str],
    scores: Sequence[float] | np.ndarray,
    *,
    number_words: bool = False,
) -> list[dict[str, Any]]:
    """The entities that the tags of a text's words mark.

    Args:
        text: the text.
        words: its W words.
        tags: of the words.
        scores: the tags' probabilities.
        number_words: also tell `words`, the first of each entity and the one after its last.

    Returns:
        `label`; `start`, `end` and `text`, a slice of the text; `score`, the mean of the words'.
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
