"""Fine-tuning as in the BERT paper (section A.3), with plain `model.fit`."""

import contextlib
import dataclasses
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_bert.atomic import replacing
from keras_bert.checkpoints.native import CONFIGURATION, save_native
from keras_bert.config import closest
from keras_bert.errors import InputError
from keras_bert.finetuning.datasets import batches
from keras_bert.finetuning.evaluation import metric_names, predict_logits, score
from keras_bert.finetuning.examples import Examples
from keras_bert.finetuning.targets import targets_of
from keras_bert.pretraining.optimizers import WarmupLinearDecay, adamw

MODEL_NAME, METRICS_NAME, HISTORY_NAME = "model", "metrics.json", "history.jsonl"
_MARKER = f"{MODEL_NAME}/{CONFIGURATION}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to fine-tune; the defaults are within the ranges of the paper.

    Args:
        epochs: passes through the training examples.
        batch_size: examples per step.
        learning_rate: at the end of the warm-up, from where it falls to 0.
        warmup: share of the steps in which the learning rate rises.
        weight_decay: decoupled, not on biases and layer normalizations.
        clip_norm: largest norm of the gradient, or None.
        metric: what chooses the best epoch; by default accuracy, micro F1 or Pearson's
            correlation, as the problem is.
        seed: of the order of the examples and of dropout.

    Raises:
        InputError: if a value is out of its range.
    """

    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 5e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip_norm: float | None = 1.0
    metric: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (low, high, expected) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise InputError(f"{name} is {value}, but must be {expected}.")


_RANGES: dict[str, tuple[float, float, str]] = {
    "epochs": (1, 1e6, "1 or more"),
    "batch_size": (1, 1e6, "1 or more"),
    "learning_rate": (1e-12, 10, "positive, and usually from 1e-5 to 1e-3"),
    "warmup": (0, 1, "from 0 to 1"),
    "weight_decay": (0, 10, "from 0 to 10"),
    "clip_norm": (1e-12, 1e12, "positive, or None"),
    "seed": (0, 2**31 - 1, "from 0 to 2147483647"),
}


@dataclasses.dataclass
class Result:
    """What came out of a fine-tuning.

    Args:
        best_epoch: from 1; its weights are those that the model has.
        validation: loss and metrics of that epoch; empty without validation examples.
        test: loss and metrics on the test examples, if there are any.
        history: one entry per epoch: `epoch`, `loss`, and `validation_…`.
    """

    best_epoch: int = 0
    validation: dict[str, float] = dataclasses.field(default_factory=dict)
    test: dict[str, float] = dataclasses.field(default_factory=dict)
    history: list[dict[str, float]] = dataclasses.field(default_factory=list)


def fine_tune(
    model: Any,
    train: Examples,
    validation: Examples | None = None,
    test: Examples | None = None,
    *,
    recipe: Recipe | None = None,
    output: str | os.PathLike | None = None,
    verbose: int | str = "auto",
) -> Result:
    """Trains a classifier; at the end it has the weights of its best epoch.

    Args:
        model: a `SequenceClassifier` with a preprocessor; its labels are those of the examples.
        train: what to learn from.
        validation: what to choose the best epoch by; without it the last one is kept.
        test: what to measure the chosen epoch on.
        recipe: how.
        output: a directory that gets `model`, `metrics.json` and `history.jsonl`. They are
            written whenever an epoch is the best so far, each file whole or not at all; so an
            interrupted run leaves its best epoch.
        verbose: as in `fit`; "auto" is a progress bar on a terminal, else a line per epoch.

    Raises:
        InputError: if the model cannot take texts, labels are missing, unknown or all the same,
            or the output directory holds something else.

    Example:
        >>> train, validation = hold_out(read_examples("train.csv"), 0.1)
        >>> names = label_names(train, "single_label")
        >>> model = keras_bert.load("pretrained", task="classifier", labels=names)
        >>> fine_tune(model, train, validation, output="run").validation["accuracy"]
        0.97
    """
    recipe = recipe or Recipe()
    _check(model, recipe)
    splits = {
        name: (examples, targets_of(examples, model.labels, model.problem_type))
        for name, examples in (("train", train), ("validation", validation), ("test", test))
        if examples is not None
    }
    targets = splits["train"][1]
    if model.problem_type == "single_label" and (targets == targets[0]).all():
        raise InputError(
            f"{train.path}: all examples have the label {model.labels[targets[0]]!r}; a "
            "classifier needs at least two labels to tell apart."
        )
    if output is not None:
        _check_output(output)

    keras.utils.set_random_seed(recipe.seed)
    dataset = batches(
        model.preprocessor,
        train,
        targets,
        batch_size=recipe.batch_size,
        shuffle_seed=recipe.seed,
    )
    steps = recipe.epochs * len(dataset)
    schedule = WarmupLinearDecay(recipe.learning_rate, round(recipe.warmup * steps), steps)
    model.compile(
        adamw(model, schedule, weight_decay=recipe.weight_decay, clip_norm=recipe.clip_norm),
        model.default_loss(),
    )
    best = _BestEpoch(splits.get("validation"), recipe, output)
    if verbose == "auto":
        verbose = 1 if sys.stdout.isatty() else 2
    model.fit(dataset, epochs=recipe.epochs, shuffle=False, callbacks=[best], verbose=verbose)
    best.restore()
    result = best.result
    if test is not None:
        logits = predict_logits(model, test, batch_size=recipe.batch_size)
        result.test = score(model, logits, splits["test"][1])
    if output is not None:
        write_result(model, result, recipe, output)
    return result


def write_result(model: Any, result: Result, recipe: Recipe, output: str | os.PathLike) -> None:
    """Writes the model and what is known about it; other files in the directory stay.

    Raises:
        InputError: if the disk refuses.
    """
    summary = {
        "best_epoch": result.best_epoch,
        "validation": result.validation,
        "test": result.test,
        "recipe": dataclasses.asdict(recipe),
    }
    save_native(model, Path(output) / MODEL_NAME)
    with replacing(Path(output) / METRICS_NAME) as path:
        path.write_text(_json(summary, indent=2) + "\n", "utf-8")
    with replacing(Path(output) / HISTORY_NAME) as path:
        path.write_text("".join(f"{_json(entry)}\n" for entry in result.history), "utf-8")


class _BestEpoch(keras.callbacks.Callback):
    """Measures every epoch, and keeps the weights of the best one."""

    def __init__(
        self,
        validation: tuple[Examples, np.ndarray] | None,
        recipe: Recipe,
        output: str | os.PathLike | None,
    ):
        super().__init__()
        self.validation = validation
        self.recipe = recipe
        self.output = output
        self.result = Result()
        self.weights: list[np.ndarray] = []

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = {} if logs is None else logs
        metrics = self._measure()
        # `fit` shows what it finds in the logs.
        logs.update({f"validation_{name}": value for name, value in metrics.items()})
        self.result.history.append({"epoch": epoch + 1, **{k: float(v) for k, v in logs.items()}})
        if self._is_best(metrics):
            self.result.best_epoch, self.result.validation = epoch + 1, metrics
            self.weights = self.model.get_weights()
            if self.output is not None and self.validation is not None:
                write_result(self.model, self.result, self.recipe, self.output)

    def restore(self) -> None:
        self.model.set_weights(self.weights)

    def _measure(self) -> dict[str, float]:
        if self.validation is None:
            return {}
        examples, targets = self.validation
        logits = predict_logits(self.model, examples, batch_size=self.recipe.batch_size)
        return score(self.model, logits, targets)

    def _is_best(self, metrics: dict[str, float]) -> bool:
        best = self.result.validation
        if not metrics or not best:
            return True
        name = self.recipe.metric or metric_names(self.model)[0]
        if math.isnan(metrics[name]):
            return False
        return math.isnan(best[name]) or metrics[name] > best[name]


class _NothingToWriteError(Exception):
    pass


def _check_output(output: str | os.PathLike) -> None:
    """Finds out before hours of training, not after them, whether there is a place to write."""
    with contextlib.suppress(_NothingToWriteError), replacing(output, marker=_MARKER):
        raise _NothingToWriteError


def _check(model: Any, recipe: Recipe) -> None:
    if getattr(model, "preprocessor", None) is None:
        raise InputError(
            "The model has no preprocessor, so it cannot be trained on texts; give it one: "
            "model.preprocessor = keras_bert.Preprocessor(...)."
        )
    names = metric_names(model)
    if recipe.metric is not None and recipe.metric not in names:
        raise InputError(
            f"This problem is not measured by {recipe.metric!r}.{closest(recipe.metric, names)} "
            f"Choose one of {', '.join(names)}."
        )
    length, positions = model.preprocessor.sequence_length, model.config.max_positions
    if length > positions:
        raise InputError(
            f"The preprocessor's sequence_length is {length}, but the model has {positions} "
            "positions; shorten it."
        )


def _json(value: Any, indent: int | None = None) -> str:
    """JSON, in which what is not a number is null."""

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items()}
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(clean(value), indent=indent)
