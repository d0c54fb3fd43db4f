"""Pairs of texts, or more that belong together, to vectors that are near each other."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_bert.errors import InputError
from keras_bert.finetuning.examples import ChoiceExamples, TextExamples
from keras_bert.finetuning.jobs.job import Job, PerRow, Targets, measured_loss, no_weights
from keras_bert.finetuning.recipe import Recipe
from keras_bert.finetuning.targets import targets_of
from keras_bert.metrics import measure as measure_by_name
from keras_bert.metrics.retrieval import accuracy_at_1, mean_reciprocal_rank, ranks
from keras_bert.text.rows import Rows

METRICS = {
    "contrastive": ("accuracy_at_1", "mrr"),
    "cosine": ("spearman", "pearson"),
    "softmax": ("accuracy", "macro_f1"),
}
"""By objective."""

SimilarityExamples = TextExamples | ChoiceExamples
"""Pairs; or a text, its own, and wrong ones, which are those of the choices that are not right:
where no label says which one is, the first."""


def rows(model: Any, examples: SimilarityExamples) -> Rows:
    """One row per text, those of an example one after the other."""
    groups = _groups(examples)
    flat = model.rows([text for group in groups for text in group])
    return dataclasses.replace(flat, group=len(groups[0]) if groups else 1)


def targets(model: Any, examples: SimilarityExamples, rows: Rows) -> PerRow:
    """What `TextEmbedder.default_loss` takes.

    For "contrastive", equal first texts have the same number: what belongs to the one is not
    wrong for the other.

    Raises:
        InputError: if the examples have no second texts, or not the labels of the objective.
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


def predict(
    model: Any, examples: SimilarityExamples, rows: Rows, outputs: Sequence[np.ndarray]
) -> list[dict[str, Any]]:
    """As `TextEmbedder.predict_text`."""
    return model.predictions(_vectors(rows, outputs))


def measure(
    model: Any, examples: SimilarityExamples, rows: Rows, outputs: Sequence[np.ndarray]
) -> dict[str, float]:
    """The metrics; for "contrastive", of finding each text's own among those of all examples.

    What is not a number, such as the correlation of cosines that are all the same, stays so.
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
    return {"loss": loss, **measure_by_name(metrics(model), right, predictions)}


def metrics(model: Any) -> tuple[str, ...]:
    """Those of the model's objective."""
    return METRICS[model.objective]


def weights(
    model: Any, examples: SimilarityExamples, targets: Targets, recipe: Recipe
) -> np.ndarray | None:
    """None.

    Raises:
        InputError: if there are class weights, or there is nothing to tell apart.
    """
    if model.objective == "contrastive":
        if len(np.unique(targets.values)) < 2:
            raise InputError(f"{examples.path}: all first texts are the same.")
        devices = model.distribute_strategy.num_replicas_in_sync
        if recipe.batch_size // (recipe.gradient_accumulation_steps * devices) < 2:
            raise InputError(
                f"A batch_size of {recipe.batch_size} in "
                f"{recipe.gradient_accumulation_steps} micro-batches on "
                f"{devices} devices leaves no other texts to tell a text's own from; enlarge it."
            )
    return no_weights(model, examples, targets, recipe)


JOB = Job(rows, targets, predict, measure, metrics, weights=weights)


def _groups(examples: SimilarityExamples) -> list[tuple[str, ...]]:
    """The texts of each example: one, its own, and wrong ones."""
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
    """The outputs by examples, `[N, C, H]`."""
    vectors = np.array(outputs)
    return vectors.reshape(-1, rows.group, vectors.shape[-1])


def _numbered(texts: Sequence[str]) -> np.ndarray:
    """A number for each different text, int32 `[N]`."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return np.array([numbers[text] for text in texts], np.int32)


def _ranks(examples: SimilarityExamples, vectors: np.ndarray) -> np.ndarray:
    """The rank of each example's own text among all other texts that are not first."""
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
