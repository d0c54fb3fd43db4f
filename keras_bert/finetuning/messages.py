"""Messages of a run: the chosen options, the progress, and advice on the result."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import keras
from tqdm import tqdm

from keras_bert.finetuning.defaults import Choice
from keras_bert.finetuning.recipe import Recipe
from keras_bert.finetuning.result import Result

_CLEARLY = 0.1  # more epochs help if the last one lowers the loss by this ratio


def overview(choices: Sequence[Choice], sizes: Mapping[str, int], labels: int) -> str:
    """Returns the numbers of examples and labels, and a line for each option that was chosen.

    Args:
        choices: values and reasons; see `resolve`.
        sizes: number of examples under the keys "training", "validation" and "test".
        labels: number of the model's labels; 0 if it has none.
    """
    counted = ", ".join(f"{size:,} for {name}" for name, size in sizes.items())
    lines = [f"Examples: {counted}{f'; {labels} labels' if labels else ''}"]
    for name, value, reason in choices:
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        lines.append(f"  {name:<15}  {shown:<6}  {reason}")
    return "\n".join(lines)


def baseline_sentence(baseline: Mapping[str, Mapping[str, float]], metrics: Sequence[str]) -> str:
    """Returns the scores of the frozen baseline, given its metrics and the names to show."""
    scores = ", ".join(f"{name} {baseline['validation'][name]:.4f}" for name in metrics)
    return f"Frozen baseline, a logistic regression on the untrained model's vectors: {scores}"


def progress_callback(bar: tqdm, epochs: int, metric: str) -> keras.callbacks.Callback:
    """Makes a callback that advances a bar, and writes a line after each epoch.

    Args:
        bar: bar of the steps of all epochs.
        epochs: number of epochs.
        metric: name of the metric that chooses the best epoch.
    """

    def begin_epoch(epoch: int, logs: Any) -> None:
        bar.set_description(f"epoch {epoch + 1}/{epochs}")

    def end_step(step: int, logs: dict[str, Any]) -> None:
        bar.set_postfix(loss=f"{logs['loss']:.3f}", refresh=False)
        bar.update()

    def end_epoch(epoch: int, logs: dict[str, Any]) -> None:
        names = {"loss": "loss", f"val_{metric}": f"validation {metric}"}
        scores = [f"{name} {logs[key]:.4f}" for key, name in names.items() if key in logs]
        bar.write(f"epoch {epoch + 1}/{epochs}: {', '.join(scores)}", file=bar.fp)

    return keras.callbacks.LambdaCallback(
        on_epoch_begin=begin_epoch, on_train_batch_end=end_step, on_epoch_end=end_epoch
    )


def rate_to_change(recipe: Recipe) -> str:
    """Returns the words after "a lower" or "a higher": the recipe's rate or the optimizer's."""
    if recipe.learning_rate is None:
        return "learning rate of the optimizer"
    return f"learning_rate than {recipe.learning_rate:g}"


def advice(
    result: Result,
    recipe: Recipe,
    metric: str,
    validation_size: int = 0,
    validation_labels: Sequence[Any] = (),
) -> str | None:
    """Returns a sentence that says what to change, or None if nothing looks wrong.

    Args:
        result: result of the run.
        recipe: recipe of the run, with all values.
        metric: name of the metric that chose the best epoch.
        validation_size: number of validation examples.
        validation_labels: the label of each validation example if each has one label, else empty.
    """
    found, rate = result.validation.get(metric), rate_to_change(recipe)
    if validation_labels and "accuracy" in result.validation:
        counts = Counter(validation_labels)
        label, count = counts.most_common(1)[0]
        ratio = count / len(validation_labels)
        # If classes have weights, the metric may be good although the accuracy is low.
        macro_f1 = 2 * ratio / (1 + ratio) / len(counts)
        constant = {"accuracy": ratio, "macro_f1": macro_f1, "f1": 0.0, "matthews": 0.0}
        no_better = found is not None and found <= constant.get(metric, -math.inf) + 1e-6
        if no_better and result.validation["accuracy"] <= ratio < 1:
            small = ": 1e-3 suits an encoder that is small or hardly pretrained"
            return (
                f"Nothing learned yet: always predicting {label!r} has an accuracy of "
                f"{ratio:.4f}. Try more epochs than {recipe.epochs}, or a higher {rate}"
                f"{small if (recipe.learning_rate or 1) < 1e-3 else ''}."
            )
    frozen = result.baseline.get("validation", {}).get(metric)
    longer = f"try more epochs than {recipe.epochs}, or a higher {rate}."
    # A low loss means that the examples were learned by heart.
    learned = frozen is not None and (
        result.history[-1]["loss"] < result.baseline["validation"]["loss"] / 2
    )
    if frozen is not None and result.best_epoch == 0:
        return (
            f"No epoch was better than the frozen baseline ({metric} {frozen:.4f}), so the model "
            "has the baseline's weights, and its encoder is not trained: "
        ) + (f"try a lower {rate}." if learned else longer)
    by_chance = 1.01 / max(validation_size, 1)  # one example, also after rounding
    if found is not None and frozen is not None and found < frozen - by_chance:
        below = (
            f"The validation {metric} is {found:.4f}, below {frozen:.4f} of a logistic regression "
            "on the vectors of the model before training: "
        )
        if learned and result.best_epoch < len(result.history):
            return f"{below}try a lower {rate}."
        return below + longer
    if len(result.history) > 1 and result.best_epoch == len(result.history):
        before, last = (entry["loss"] for entry in result.history[-2:])
        if last < before * (1 - _CLEARLY):
            return (
                f"The loss still fell from {before:.3f} to {last:.3f} in the last epoch: {longer}"
            )
    return None
