"""Job of token classification: tags words with entities, parts of speech or slots."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_bert.errors import InputError, closest
from keras_bert.finetuning.examples import Examples, TaggedExamples
from keras_bert.finetuning.jobs.job import Job, PerToken
from keras_bert.finetuning.readers.tagged import read_tagged
from keras_bert.layers.crf import IGNORED
from keras_bert.metrics.classification import accuracy
from keras_bert.metrics.entities import entity_scores
from keras_bert.tasks.entities import detect_scheme, spans_of, tag_of
from keras_bert.tasks.windowed_words import entities_of
from keras_bert.text.rows import Rows
from keras_bert.text.words import first_tokens

_ROWS_AT_ONCE = 256


def read(
    path: str,
    *,
    text_column: str | None = None,
    label_column: Sequence[str] = (),
    comment: str | None = None,
    format: str | None = None,
    labeled: bool = True,
    on_error: Any = "fail",
) -> TaggedExamples:
    """Reads tagged words; see `read_tagged`. Columns of CoNLL files have numbers, from 1 on.

    Raises:
        InputError: if the file cannot be read, or a column is not a number.
    """
    named = {"word_column": text_column, "tag_column": next(iter(label_column), None)}
    columns: dict[str, Any] = {k: _index(name) for k, name in named.items() if name is not None}
    if comment is not None:
        columns["comment"] = comment
    return read_tagged(path, format=format, labeled=labeled, on_error=on_error, **columns)


def _index(name: str) -> int:
    if not name.isdecimal() or int(name) < 1:
        raise InputError(
            f"The column is {name!r}, but columns of CoNLL files have numbers, from 1 on."
        )
    return int(name) - 1


def arguments(
    train: TaggedExamples,
    *others: Examples,
    scheme: str | None = None,
    crf: bool = False,
    continue_labels: bool = False,
) -> dict[str, Any]:
    """Returns the model's arguments.

    If the tags mark entities, the labels are all tags that the file's entities can have. By
    default, the scheme is the scheme of the tags. But tags in IOB1 are converted to IOB2: a file in
    IOB1 has hardly any B tags, so a model could not learn them.
    """
    detected = detect_scheme(train.tags or ())
    scheme = scheme or ("iob2" if detected == "iob1" else detected)
    labels = sorted({tag for tags in train.tags or () for tag in tags})
    if scheme is not None:
        names = sorted({name for tags in train.tags or () for name, *_ in spans_of(tags)})
        prefixes = "BIES" if scheme == "bioes" else "BI"
        labels = ["O", *(tag_of(prefix, name) for name in names for prefix in prefixes)]
    return {"labels": labels, "scheme": scheme, "crf": crf, "continue_labels": continue_labels}


def rows(model: Any, examples: TaggedExamples) -> Rows:
    """Returns one row per text, or several overlapping rows of a long text."""
    return model.rows(examples.inputs, overlap="auto", offsets=True)


def targets(model: Any, examples: TaggedExamples, rows: Rows) -> PerToken:
    """Returns the label of each word at its first token, in the row with the most context.

    If the model has `continue_labels` and no CRF, the word's other tokens have the label, too, with
    `I-` in place of `B-`. The labels of a CRF's row must not begin or end inside an entity. So if
    the model has a CRF and a scheme, the words of an entity that is divided between rows have no
    label.

    Raises:
        InputError: if the examples have no tags or no words, or the model does not know a tag;
            the message names file and line.
    """
    ids = {label: index for index, label in enumerate(model.labels)}
    tags = _tags(model, examples)
    if not any(tags):
        raise InputError(f"{examples.path} has no words; give at least one with its tag.")
    labels = np.array(
        [
            _id(examples, index, word, tag, ids)
            for index, own in enumerate(tags)
            for word, tag in enumerate(own)
        ],
        np.int32,
    )
    tokens = first_tokens(rows, examples.words)
    if model.crf is not None and model.scheme is not None:
        tokens[_cut(tags, _row_of_tokens(rows, tokens))] = -1
    values = np.full(rows.splits[-1], IGNORED, np.int32)
    values[tokens[tokens >= 0]] = labels[tokens >= 0]
    if model.continue_labels and model.crf is None:
        first = _first_of_word(rows, tokens, examples)
        inside = [ids.get(label.replace("B-", "I-", 1), index) for label, index in ids.items()]
        others = (first >= 0) & (first != np.arange(len(first)))
        values[others] = np.array(inside, np.int32)[values[first[others]]]
    return PerToken(values, mean="tokens" if model.crf is None else "rows")


def predict(
    model: Any, examples: TaggedExamples, rows: Rows, outputs: list[np.ndarray]
) -> list[dict[str, Any]]:
    """Returns the dictionaries of `TokenClassifier.predict_words`."""
    found = model.tag_words(rows, examples.words, outputs)
    return [
        {"tags": tags, "entities": entities_of(text, words, tags, scores, number_words=True)}
        for text, words, tags, scores in zip(examples.texts, examples.words, *found, strict=True)
    ]


def measure(
    model: Any, examples: TaggedExamples, rows: Rows, outputs: list[np.ndarray]
) -> dict[str, float]:
    """Returns the loss and the metrics. Words without tokens count, too."""
    right = _tags(model, examples)
    found, _ = model.tag_words(rows, examples.words, outputs)
    words = [np.array([tag for tags in several for tag in tags]) for several in (right, found)]
    scores = {"accuracy": accuracy(*words)}
    if finds_entities(model):
        scores |= entity_scores(*([*map(spans_of, several)] for several in (right, found)))
    loss = _loss(model, rows, outputs, targets(model, examples, rows).values)
    return {"loss": loss} | {name: scores[name] for name in metrics(model)}


def metrics(model: Any) -> tuple[str, ...]:
    """Returns F1, precision, recall and accuracy, or only accuracy if no labels mark entities."""
    return ("f1", "precision", "recall", "accuracy") if finds_entities(model) else ("accuracy",)


def finds_entities(model: Any) -> bool:
    """Returns whether the labels of a `TokenClassifier` mark entities, as B-PER does."""
    return model.scheme is not None or detect_scheme([model.labels]) is not None


def _tags(model: Any, examples: TaggedExamples) -> tuple[tuple[str, ...], ...]:
    """Returns the tags of each text in the scheme of the model."""
    tags = examples.in_scheme(model.scheme).tags
    if tags is None:
        raise InputError(f"{examples.path} has no tags; give every word a tag.")
    return tags


def _id(examples: TaggedExamples, index: int, word: int, tag: str, ids: dict[str, int]) -> int:
    if tag not in ids:
        text = examples.texts[index][slice(*examples.words[index][word])]
        raise InputError(
            f"{examples.place(index)}: the tag {tag!r} of {text!r} is unknown.{closest(tag, ids)} "
            f"The model knows {', '.join(map(repr, ids))}."
        )
    return ids[tag]


def _first_of_word(rows: Rows, tokens: np.ndarray, examples: TaggedExamples) -> np.ndarray:
    """Returns the index of the first token of each token's word, in the same row, or -1.

    Args:
        rows: rows with offsets.
        tokens: index of the first token of each word, or -1.
        examples: examples with these words.
    """
    ends = np.zeros(len(rows.flat["starts"]), np.int64)  # end of a word, at its first token
    word_ends = np.array([end for words in examples.words for _, end in words], np.int64)
    ends[tokens[tokens >= 0]] = word_ends[tokens >= 0]
    positions = np.arange(len(ends))
    first = np.maximum.accumulate(np.where(ends > 0, positions, 0))
    row = _row_of_tokens(rows, positions)
    inside = rows.flat["is_max_context"] & (row == row[first]) & (rows.flat["starts"] < ends[first])
    return np.where(inside, first, -1)


def _row_of_tokens(rows: Rows, tokens: np.ndarray) -> np.ndarray:
    """Returns the row of each token; -1 stays -1."""
    return np.where(tokens < 0, -1, np.searchsorted(rows.splits, tokens, side="right") - 1)


def _cut(tags: Iterable[Sequence[str]], row: np.ndarray) -> np.ndarray:
    """Returns whether each word belongs to an entity that is divided between rows, bool `[W]`.

    Args:
        tags: tags of the words of each text.
        row: row of each word, int `[W]`.
    """
    cut = np.zeros(len(row), bool)
    shift = 0
    for own in tags:
        for _, first, end in spans_of(own):
            several = row[shift + first : shift + end]
            cut[shift + first : shift + end] = (several != several[0]).any()
        shift += len(own)
    return cut


def _loss(model: Any, rows: Rows, outputs: list[np.ndarray], values: np.ndarray) -> float:
    """Returns the training loss: the mean over labeled tokens or, with a CRF, over rows."""
    counts = values != IGNORED
    if not counts.any():
        return 0.0
    logits, values = np.concatenate(outputs)[counts], values[counts]
    if model.crf is None:
        chosen = ops.take_along_axis(ops.log_softmax(logits), values[:, np.newaxis], axis=-1)
        return -float(ops.mean(chosen))
    row = np.repeat(np.arange(len(rows)), rows.lengths)[counts]
    splits = np.searchsorted(row, np.arange(len(rows) + 1))
    order, total = np.argsort(np.diff(splits), kind="stable"), 0.0
    for first in range(0, len(order), _ROWS_AT_ONCE):
        chosen = order[first : first + _ROWS_AT_ONCE]
        begins, ends = splits[chosen, np.newaxis], splits[chosen + 1, np.newaxis]
        word = begins + np.arange((ends - begins).max(initial=1))
        mask, word = word < ends, np.minimum(word, len(values) - 1)
        total -= float(ops.sum(model.crf.log_likelihood(logits[word], values[word], mask)))
    return total / len(rows)


JOB = Job(
    examples=TaggedExamples,
    formats=("conll", "jsonl", "parquet"),
    read=read,
    arguments=arguments,
    rows=rows,
    targets=targets,
    predict=predict,
    measure=measure,
    metrics=metrics,
)
