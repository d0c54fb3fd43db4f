"""Callbacks, optimizer, loss and metrics of the user, which replace or complete a recipe's own.

Everything that cannot work together is refused here, before the training begins.
"""

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.errors import InputError
from keras_bert.finetuning.jobs import Targets
from keras_bert.finetuning.recipe import Recipe
from keras_bert.layers.crf import IGNORED
from keras_bert.optimizers.keras_adamw import KerasAdamW
from keras_bert.optimizers.schedules import WarmupLinearDecay
from keras_bert.tasks.registry import class_names, task_of

_SCHEDULE = ("learning_rate", "warmup")
_OF_OPTIMIZER = ("weight_decay", "global_clipnorm", "layer_decay", "crf_rate")
_MEASURED = ("classifier", "multiple_choice")  # one target and one row of logits per example
_SETTING_RATES = ("LearningRateScheduler", "ReduceLROnPlateau")
_REFUSED_CALLBACKS = {
    "BackupAndRestore": "fine_tune continues interrupted runs by itself if it has an output; leave "
    "the callback out.",
    "SwapEMAWeights": "fine_tune measures and saves the averaged weights by itself; leave the "
    "callback out.",
}


@dataclasses.dataclass(frozen=True)
class KerasObjects:
    """Objects of Keras that `fine_tune` was given; see its arguments.

    Args:
        callbacks: callbacks for `fit`.
        optimizer: an optimizer, a function that takes a schedule of learning rates and returns an
            optimizer, or None for the recipe's own.
        loss: a loss, a function of targets and outputs, or None for the model's own.
        metrics: metrics to measure besides the model's own.
    """

    callbacks: Sequence[Any] = ()
    optimizer: Any = None
    loss: Any = None
    metrics: Sequence[Any] = ()

    def described(self, model: Any) -> dict[str, Any]:
        """Returns the configurations of the optimizer, the loss and the metrics, ready for JSON.

        A function is described by its name.

        Args:
            model: compiled model, before the first step.
        """
        given = {
            "optimizer": inner_optimizer(model) if self.optimizer is not None else None,
            "loss": self.loss,
            "metrics": list(self.metrics) or None,
        }
        return {name: _described(value) for name, value in given.items() if value is not None}

    def replaced(self) -> tuple[str, ...]:
        """Returns the names of the recipe's options that have no effect."""
        if self.optimizer is None:
            return ()
        return _OF_OPTIMIZER + (_SCHEDULE if _is_optimizer(self.optimizer) else ())


def check_objects(objects: KerasObjects, model: Any, recipe: Recipe) -> None:
    """Checks that callbacks, optimizer and loss fit each other, the recipe and the model.

    Args:
        objects: the objects.
        model: a task.
        recipe: recipe as the user gave it.

    Raises:
        InputError: if they do not.
    """
    _check_callbacks(objects)
    if objects.optimizer is not None:
        _check_recipe(objects, recipe)
        if _is_optimizer(objects.optimizer):
            check_optimizer(objects.optimizer, model, recipe)
        elif not callable(objects.optimizer):
            raise InputError(
                f"optimizer is {objects.optimizer!r}, but must be a Keras optimizer, or a function "
                "that takes a schedule of learning rates and returns one."
            )
    if objects.loss is not None:
        _check_loss(objects.loss, model, recipe)


def _check_callbacks(objects: KerasObjects) -> None:
    constant = _is_optimizer(objects.optimizer) and isinstance(
        objects.optimizer.learning_rate, keras.Variable
    )
    for callback in objects.callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            raise InputError(f"{callback!r} is not a Keras callback; leave it out.")
        names = {cls.__name__ for cls in type(callback).__mro__}
        for name, reason in _REFUSED_CALLBACKS.items():
            if name in names:
                raise InputError(f"{name} cannot be combined with fine_tune: {reason}")
        if not constant and names & set(_SETTING_RATES):
            raise InputError(
                f"{type(callback).__name__} sets the learning rate, but a schedule sets it, too; "
                "give an optimizer with a constant rate, such as KerasAdamW(5e-5), or leave the "
                "callback out."
            )


def _check_recipe(objects: KerasObjects, recipe: Recipe) -> None:
    for name in objects.replaced():
        value = getattr(recipe, name)
        if value != type(recipe).model_fields[name].default:
            raise InputError(
                f"The recipe's {name} is {value!r}, but has no effect, because an optimizer is "
                "given; set it in the optimizer and leave it out of the recipe."
            )


def check_optimizer(optimizer: Any, model: Any, recipe: Recipe) -> None:
    """Checks that an optimizer of the user fits the model's strategy and the recipe.

    Raises:
        InputError: if it does not.
    """
    name, parts = type(optimizer).__name__, recipe.gradient_accumulation_steps
    if optimizer.built:
        raise InputError(f"The {name} was used before; give a new optimizer to each run.")
    ours = isinstance(optimizer, KerasAdamW)
    if parts > 1 and not (ours and optimizer.gradient_accumulation_steps == parts):
        raise InputError(
            f"The recipe's gradient_accumulation_steps is {parts}, but the {name} does not add up "
            f"{parts} gradients as the recipe needs it; give KerasAdamW(..., "
            f"gradient_accumulation_steps={parts}), or leave it at 1 in the recipe."
        )
    if ours and parts == 1 and optimizer.gradient_accumulation_steps:
        raise InputError(
            f"The optimizer's gradient_accumulation_steps is "
            f"{optimizer.gradient_accumulation_steps}, but the recipe's is 1; give the recipe the "
            "same number."
        )
    replicas = model.distribute_strategy.num_replicas_in_sync
    if replicas > 1 and optimizer._distribution_strategy is not model.distribute_strategy:
        raise InputError(
            f"The {name} was made outside of the scope of the model's strategy; make it inside the "
            "scope, or give a function that makes it."
        )
    refused = (
        ("use_ema",) if ours else ("use_ema", "gradient_accumulation_steps", "global_clipnorm")
    )
    wrong = [option for option in refused if getattr(_inner(optimizer), option)]
    if replicas > 1 and wrong:
        raise InputError(
            f"The {name} has {wrong[0]}, which Keras does not support on {replicas} devices; leave "
            "it out, or train on one device."
        )


def _check_loss(loss: Any, model: Any, recipe: Recipe) -> None:
    if not isinstance(loss, keras.losses.Loss) and (isinstance(loss, str) or not callable(loss)):
        raise InputError(
            f"loss is {loss!r}, but must be a loss object, such as "
            "keras.losses.SparseCategoricalCrossentropy(from_logits=True), or a function of "
            "targets and outputs."
        )
    if not isinstance(model.default_loss(), keras.losses.Loss):
        raise InputError(
            f"This {type(model).__name__} needs its own loss, which no single loss can replace; "
            "leave loss out."
        )
    if recipe.label_smoothing:
        raise InputError(
            f"The recipe's label_smoothing is {recipe.label_smoothing}, but a loss is given; give "
            "the loss this option, or leave one of them out."
        )
    options = loss.get_config() if isinstance(loss, keras.losses.Loss) else {}
    name = type(loss).__name__
    if options.get("from_logits") is False:
        raise InputError(
            f"The {name} expects probabilities, but the model returns logits; give it "
            "from_logits=True."
        )
    # Targets of tokens are label ids, and `IGNORED` at tokens without a label.
    if model.per_token and options.get("ignore_class", IGNORED) != IGNORED:
        raise InputError(
            f"The {name} has ignore_class={options['ignore_class']}, but tokens without a label "
            f"have the target {IGNORED}; give it ignore_class={IGNORED}."
        )
    if getattr(loss, "reduction", "sum_over_batch_size") != "sum_over_batch_size":
        raise InputError(
            f"The {name} has the reduction {loss.reduction!r}, but a batch can be divided only if "
            "the reduction is 'sum_over_batch_size'."
        )


def check_metrics(metrics: Sequence[Any], model: Any, names: Sequence[str]) -> None:
    """Checks that the metrics of the user fit a model.

    Args:
        metrics: the metrics.
        model: a task.
        names: names of the model's own metrics.

    Raises:
        InputError: if the metrics do not fit.
    """
    for metric in metrics:
        if not isinstance(metric, keras.metrics.Metric):
            raise InputError(
                f"metrics has {metric!r}, but needs metric objects, such as "
                "keras.metrics.SparseTopKCategoricalAccuracy(3)."
            )
    given = [metric.name for metric in metrics]
    taken = next((n for n in given if n in ("loss", *names) or given.count(n) > 1), None)
    if taken is not None:
        raise InputError(f"Two metrics are called {taken!r}; give one of them another name.")
    if metrics and task_of(model) not in _MEASURED:
        raise InputError(
            f"metrics are for {class_names(_MEASURED)}, but a {type(model).__name__} has other "
            "targets; leave metrics out."
        )
    if metrics and model.distribute_strategy.num_replicas_in_sync > 1:
        raise InputError(
            "metrics are computed on one device only; leave them out, or train on one device."
        )


def check_direction(metrics: Sequence[Any], name: str | None) -> None:
    """Checks that a larger value is better for the metric that chooses the best epoch.

    Raises:
        InputError: if a smaller value is better.
    """
    for metric in metrics:
        if metric.name == name and getattr(metric, "_direction", None) == "down":
            raise InputError(
                f"The recipe's metric is {name!r}, but the best epoch is the one with the largest "
                "value, and this metric is better if it is smaller; choose another one."
            )


def own_optimizer(objects: KerasObjects, model: Any, recipe: Recipe, updates: int) -> Any:
    """Returns the given optimizer. A function gets the recipe's schedule for this many updates.

    Raises:
        InputError: if the function returns no suitable optimizer.
    """
    if _is_optimizer(objects.optimizer):
        return objects.optimizer
    made = objects.optimizer(
        WarmupLinearDecay(recipe.learning_rate, round(recipe.warmup * updates), updates)
    )
    if not _is_optimizer(made):
        raise InputError(
            f"The function that is given as optimizer returned {made!r}, but must return a Keras "
            "optimizer."
        )
    check_optimizer(made, model, recipe)
    return made


@contextlib.contextmanager
def own_loss(model: Any, loss: Any) -> Iterator[None]:
    """Makes a loss the model's default loss while the `with` block runs; None changes nothing."""
    if loss is None:
        yield
        return
    if not isinstance(loss, keras.losses.Loss):
        loss = _FunctionLoss(loss)
    model.default_loss = lambda: loss
    try:
        yield
    finally:
        del model.default_loss


class _FunctionLoss(keras.losses.Loss):
    """Mean of a function of targets and outputs."""

    def __init__(self, function: Callable[[Any, Any], Any]):
        super().__init__(name=getattr(function, "__name__", "loss"))
        self.function = function

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return self.function(y_true, y_pred)


def check_first_loss(model: Any, dataset: Any) -> None:
    """Computes the loss of a compiled model on the first batch, to find a loss that does not fit.

    Raises:
        InputError: if the loss cannot be computed, or is not one finite number.
    """
    x, y, weights = next(iter(dataset))
    with model.distribute_strategy.scope():
        outputs = model(x, training=False)
        shapes = f"targets {list(y.shape)} and outputs {list(outputs.shape)}"
        try:
            loss = model.compute_loss(x, y, outputs, weights, training=False)
        except Exception as error:
            reason = str(error).strip().split("\n")[0]
            raise InputError(f"The loss cannot be computed for {shapes}: {reason}") from error
    value = ops.convert_to_numpy(loss)
    if value.shape != () or not np.isfinite(value):
        raise InputError(
            f"The loss is {value} for {shapes} of the first batch, but must be one finite number; "
            "choose a loss for such targets and outputs."
        )


def measure_metrics(
    metrics: Sequence[Any], targets: Targets, outputs: Sequence[np.ndarray]
) -> dict[str, float]:
    """Returns the values of Keras metrics on all examples of a split.

    Args:
        metrics: metrics with different names.
        targets: targets `[E]` or `[E, ...]`.
        outputs: outputs of `predict_rows`.
    """
    found = {}
    for metric in metrics:
        metric.reset_state()
        metric.update_state(targets.values, np.reshape(outputs, (len(targets.values), -1)))
        found[metric.name] = float(ops.convert_to_numpy(metric.result()))
        metric.reset_state()
    return found


def inner_optimizer(model: Any) -> Any:
    """Returns the optimizer of a compiled model, without the one that scales its loss."""
    return _inner(model.optimizer)


def has_average(model: Any) -> bool:
    """Returns whether the optimizer of a compiled model keeps moving averages of the weights."""
    return bool(inner_optimizer(model).use_ema)


@contextlib.contextmanager
def averaged(model: Any) -> Iterator[None]:
    """Gives a model the averaged weights of its optimizer while the `with` block runs.

    Without averages (`use_ema`), nothing changes.
    """
    if not has_average(model):
        yield
        return
    weights = [ops.convert_to_numpy(variable) for variable in model.trainable_variables]
    inner_optimizer(model).finalize_variable_values(model.trainable_variables)
    try:
        yield
    finally:
        for variable, value in zip(model.trainable_variables, weights, strict=True):
            variable.assign(value)


class NamesOfKeras(keras.callbacks.CallbackList):
    """Callbacks that expect Keras' names of validation metrics, such as `val_accuracy`."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Calls the callbacks with renamed metrics."""
        super().on_epoch_end(epoch, _renamed(logs))

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Calls the callbacks with renamed metrics."""
        super().on_train_end(_renamed(logs))


def _renamed(logs: Mapping[str, Any] | None) -> dict[str, Any]:
    start = "validation_"
    return {
        f"val_{name.removeprefix(start)}" if name.startswith(start) else name: value
        for name, value in (logs or {}).items()
    }


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, keras.optimizers.Optimizer)


def _inner(optimizer: Any) -> Any:
    return getattr(optimizer, "inner_optimizer", optimizer)


def _described(value: Any) -> Any:
    if callable(value) and not isinstance(value, keras.losses.Loss):
        name = getattr(value, "__qualname__", type(value).__qualname__)
        return f"{getattr(value, '__module__', '')}.{name}"
    return _without_counters(keras.saving.serialize_keras_object(value))


def _without_counters(value: Any) -> Any:
    """Removes the names of objects, which Keras counts in a process, and what JSON cannot hold."""
    if isinstance(value, Mapping):
        return {key: _without_counters(item) for key, item in value.items() if key != "name"}
    if isinstance(value, list | tuple):
        return [_without_counters(item) for item in value]
    return json.loads(json.dumps(value, default=str))
