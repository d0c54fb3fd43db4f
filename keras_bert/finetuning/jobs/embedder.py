"""Job of text embedding: gives texts that belong together vectors that are near each other."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import ChoiceExamples, Columns, TextExamples
from keras_bert.finetuning.jobs.job import Job, PerRow, Targets, measured_loss, no_weights
from keras_bert.finetuning.readers.choices import read_choices
from keras_bert.finetuning.readers.tables import FORMATS
from keras_bert.finetuning.readers.texts import read_examples
from keras_bert.finetuning.recipe import Recipe
from keras_bert.finetuning.targets import embedder_arguments, targets_of
from keras_bert.metrics import measure as measure_by_name
from keras_bert.metrics.retrieval import accuracy_at_1, mean_reciprocal_rank, ranks
from keras_bert.text.rows import Rows

METRICS = {
    "contrastive": ("accuracy_at_1", "mrr"),
    "cosine": ("spearman", "pearson"),
    "softmax": ("accuracy", "macro_f1"),
}
"""Metrics by objective."""

SimilarityExamples = TextExamples | ChoiceExamples
"""Pairs, or texts with right and wrong choices. Without labels, the first choice is right."""


def read(
    path: str,
    *,
    text_column: str | None = None,
    pair_column: str | None = None,
    choice_column: Sequence[str] = (),
    label_column: Sequence[str] = (),
    header: bool = True,
    format: str | None = None,
    labeled: bool = True,
    on_error: Any = "fail",
) -> SimilarityExamples:
    """Reads pairs, whose labels are optional, or texts with choices if `choice_column` is given.

    Raises:
        InputError: if the file cannot be read, or only some pairs have labels.
    """
    options: dict[str, Any] = {"format": format, "header": header, "on_error": on_error}
    if choice_column:
        options |= {"text_column": text_column, "label_column": label_column}
        return read_choices(path, choice_column=choice_column, labeled=False, **options)
    if not header and not text_column and not pair_column:
        text_column, pair_column = "1", "2"
    columns = Columns(text_column, pair_column, tuple(label_column))
    examples = read_examples(path, columns, labeled=False, **options)
    if labeled and examples.labels is None and examples.columns.labels:
        return read_examples(path, columns, **options)  # names the row without a label
    return examples


def arguments(
    *examples: Any,
    objective: str | None = None,
    pooling: str | None = None,
    score_range: tuple[float, float] | None = None,
    windows: str | None = None,
    max_windows: int | None = None,
) -> dict[str, Any]:
    """Returns the result of `embedder_arguments` and the arguments that are given."""
    given = {
        "pooling": pooling,
        "score_range": score_range,
        "windows": windows,
        "max_windows": max_windows,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    return embedder_arguments(*examples, objective=objective) | chosen


def texts(examples: SimilarityExamples) -> list[str]:
    """Returns the texts of all examples; the texts of an example follow one another."""
    return [text for group in _groups(examples) for text in group]


def rows(model: Any, examples: SimilarityExamples) -> Rows:
    """Returns one row per text, with the model's default prompt, as `model.encode` has it.

    The texts of an example follow one another.
    """
    groups = _groups(examples)
    prompt = model.prompts[model.default_prompt] if model.default_prompt else ""
    found = model.rows([prompt + text for group in groups for text in group])
    return dataclasses.replace(found, group=len(groups[0]) if groups else 1)


def targets(model: Any, examples: SimilarityExamples, rows: Rows) -> PerRow:
    """Returns the targets of `TextEmbedder.default_loss`.

    For "contrastive", the target is a number that identifies the first text. Equal first texts
    have equal numbers, so that the loss does not treat a right second text as a wrong one.

    Raises:
        InputError: if the examples have no second texts, or their labels do not fit the objective.
    """
    if rows.group == 1:
        raise InputError(
            f"{examples.path} has single texts, but an embedder learns from pairs; name the "
            "column of the second texts."
        )
    labels, objective = examples.labels, model.objective
    if objective == "contrastive":
        if labels is not None and isinstance(examples, TextExamples):
            raise InputError(
                f"{examples.path} has labels, but for the objective 'contrastive' all its pairs "
                "belong together; choose 'cosine' or 'softmax', or leave out the labels."
            )
        return PerRow(_numbered([group[0] for group in _groups(examples)]))
    if isinstance(examples, ChoiceExamples):
        raise InputError(
            f"{examples.path} has choices, from which only the objective 'contrastive' learns; "
            f"this model's is {objective!r}."
        )
    if objective == "softmax":
        return PerRow(targets_of(examples, model.labels, "single_label"))
    scores, (low, high) = targets_of(examples, (), "regression")[:, 0], model.score_range
    outside = np.flatnonzero((scores < low) | (scores > high))
    if len(outside):
        raise InputError(
            f"{examples.place(outside[0])}: the score {scores[outside[0]]:g} is outside of the "
            f"model's score_range, {low:g} to {high:g}; give another score_range."
        )
    return PerRow((scores - np.float32(low)) / np.float32(high - low))


def measure(
    model: Any, examples: SimilarityExamples, rows: Rows, outputs: Sequence[np.ndarray]
) -> dict[str, float]:
    """Returns the metrics and, unless the objective is "contrastive", the loss.

    For "contrastive", the metrics measure a search: each first text is the query, and its second
    text must be found among the other texts of all examples. If all cosines are equal, the
    correlation is nan.
    """
    vectors, right = _vectors(rows, outputs), targets(model, examples, rows).values
    if model.objective == "contrastive":
        found = _ranks(examples, vectors)
        return {"accuracy_at_1": accuracy_at_1(found), "mrr": mean_reciprocal_rank(found)}
    predictions = model.cosines(vectors)[:, 0]
    values = vectors
    if model.objective == "softmax":
        values = keras.ops.convert_to_numpy(model.pair_logits(vectors))
        predictions = values.argmax(axis=1)
    loss = measured_loss(model, right, values)
    return {"loss": loss, **measure_by_name(METRICS[model.objective], right, predictions)}


def weights(
    model: Any, examples: SimilarityExamples, targets: Targets, recipe: Recipe
) -> np.ndarray | None:
    """Returns None: all examples have the same weight.

    Raises:
        InputError: if the recipe has class weights. For "contrastive" also if all first texts are
            the same, or a device has only one example of a micro-batch.
    """
    if model.objective == "contrastive":
        if len(np.unique(targets.values)) < 2:
            raise InputError(
                f"{examples.path}: all first texts are the same, so there are no wrong pairs to "
                "learn from; give at least two different ones."
            )
        devices = model.distribute_strategy.num_replicas_in_sync
        if recipe.batch_size // (recipe.gradient_accumulation_steps * devices) < 2:
            raise InputError(
                f"batch_size is {recipe.batch_size}, with "
                f"{recipe.gradient_accumulation_steps} micro-batches on {devices} devices. Then "
                "a device sees one pair at a time and has no wrong texts to compare with; raise "
                "batch_size."
            )
    return no_weights(model, examples, targets, recipe)


JOB = Job(
    examples=TextExamples,
    formats=FORMATS,
    read=read,
    arguments=arguments,
    keeps_head=True,
    texts=texts,
    rows=rows,
    targets=targets,
    predict=lambda model, examples, rows, outputs: model.predictions(_vectors(rows, outputs)),
    measure=measure,
    metrics=lambda model: METRICS[model.objective],
    weights=weights,
)


def _groups(examples: SimilarityExamples) -> list[tuple[str, ...]]:
    """Returns the texts of each example: the first text, its right text, and its wrong texts."""
    if isinstance(examples, TextExamples):
        columns = (examples.texts,) if examples.pairs is None else (examples.texts, examples.pairs)
        return list(zip(*columns, strict=True))
    examples.check_counts()
    labels = (0,) * len(examples) if examples.labels is None else examples.labels
    return [
        (context, choices[right], *choices[:right], *choices[right + 1 :])
        for context, choices, right in zip(examples.contexts, examples.choices, labels, strict=True)
    ]


def _vectors(rows: Rows, outputs: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the vectors of the C texts of each example, `[N, C, H]`."""
    vectors = np.array(outputs)
    return vectors.reshape(-1, rows.group, vectors.shape[-1])


def _numbered(texts: Sequence[str]) -> np.ndarray:
    """Returns a number for each text, int32 `[N]`. Equal texts have equal numbers."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return np.array([numbers[text] for text in texts], np.int32)


def _ranks(examples: SimilarityExamples, vectors: np.ndarray) -> np.ndarray:
    """Returns the rank of each example's right text among all texts that are not first texts."""
    groups = _groups(examples)
    numbers = _numbered([text for group in groups for text in group[1:]])
    documents = numbers.reshape(len(groups), -1)
    _, first = np.unique(numbers, return_index=True)
    right: dict[str, set[int]] = {}
    for group, (own, *_) in zip(groups, documents.tolist(), strict=True):
        right.setdefault(group[0], set()).add(own)
    return ranks(
        vectors[:, 0],
        vectors[:, 1:].reshape(-1, vectors.shape[-1])[first],
        documents[:, 0],
        [sorted(right[group[0]]) for group in groups],
    )
