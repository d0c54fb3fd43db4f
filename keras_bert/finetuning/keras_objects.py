"""Callbacks, optimizer, loss and metrics of Keras that a user gives to `fine_tune`.

Whatever cannot work together is refused before the training begins.
"""

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.errors import InputError, first_sentence
from keras_bert.finetuning.recipe import Recipe
from keras_bert.optimizers.keras_adamw import KerasAdamW
from keras_bert.optimizers.schedules import WarmupLinearDecay
from keras_bert.tasks.registry import class_names, task_of

_SCHEDULE = ("learning_rate", "warmup")
_OF_ADAMW = ("weight_decay", "global_clipnorm", "layer_decay", "crf_rate")
_MEASURED = ("classifier", "multiple_choice")  # one target and one row of logits per example
_RATE_CALLBACKS = (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)
_REFUSED_CALLBACKS = {
    keras.callbacks.BackupAndRestore: "continues interrupted runs by itself if it has an output",
    keras.callbacks.SwapEMAWeights: "measures and saves averaged weights by itself",
}


@dataclasses.dataclass(frozen=True)
class KerasObjects:
    """Objects of Keras that `fine_tune` was given; see its arguments."""

    callbacks: Sequence[Any] = ()
    optimizer: Any = None
    loss: Any = None
    metrics: Sequence[Any] = ()

    @property
    def replaced(self) -> tuple[str, ...]:
        """Names of the recipe's options that have no effect."""
        if self.optimizer is None:
            return ()
        return (*_OF_ADAMW, *_SCHEDULE) if _is_optimizer(self.optimizer) else _OF_ADAMW

    def check(self, model: Any, recipe: Recipe, own_metrics: Sequence[str]) -> None:
        """Checks that the objects fit each other, the recipe and the model.

        Args:
            model: a task.
            recipe: recipe as the user gave it.
            own_metrics: names of the model's own metrics.

        Raises:
            InputError: if the objects do not fit.
        """
        for name in ("callbacks", "metrics"):
            if not isinstance(getattr(self, name), list | tuple):
                raise InputError(f"{name} is {getattr(self, name)!r}, but must be a list.")
        _check_callbacks(self.callbacks, self.optimizer)
        for name in self.replaced:
            value = getattr(recipe, name)
            if value != type(recipe).model_fields[name].default:
                raise InputError(
                    f"The recipe's {name} is {value!r}, but has no effect, because an optimizer is "
                    "given; set it in the optimizer and leave it out of the recipe."
                )
        if _is_optimizer(self.optimizer):
            _check_optimizer(self.optimizer, model, recipe)
        elif self.optimizer is not None and not callable(self.optimizer):
            raise InputError(
                f"optimizer is {self.optimizer!r}, but must be a Keras optimizer, or a function "
                "that takes a schedule of learning rates and returns an optimizer."
            )
        if self.loss is not None:
            _check_loss(self.loss, model, recipe)
        if self.metrics:
            _check_metrics(self.metrics, model, recipe, own_metrics)

    def make_optimizer(self, model: Any, recipe: Recipe, updates: int) -> Any:
        """Returns the given optimizer. A function gets the recipe's schedule for the updates.

        Raises:
            InputError: if the function returns no suitable optimizer.
        """
        if _is_optimizer(self.optimizer):
            return self.optimizer
        warmup = round(recipe.warmup * updates)
        made = self.optimizer(WarmupLinearDecay(recipe.learning_rate, warmup, updates))
        if not _is_optimizer(made):
            raise InputError(
                f"The function that is given as optimizer returned {made!r}, but must return a "
                "Keras optimizer."
            )
        _check_optimizer(made, model, recipe)
        return made

    def options(self, recipe: Recipe, model: Any) -> dict[str, Any]:
        """Returns the options of a run, ready for JSON: the recipe's, and configurations.

        Options of the recipe without effect are left out.

        Args:
            recipe: recipe of the run.
            model: compiled model, before the first step.
        """
        options = {k: v for k, v in recipe.to_dict().items() if k not in self.replaced}
        if self.optimizer is not None:
            options["optimizer"] = _configuration(_inner(model.optimizer))
        if self.loss is not None:
            options["loss"] = _configuration(self.loss)
        if self.metrics:
            options["metrics"] = [_configuration(metric) for metric in self.metrics]
        return options


def _check_callbacks(callbacks: Sequence[Any], optimizer: Any) -> None:
    constant = _is_optimizer(optimizer) and isinstance(optimizer._learning_rate, keras.Variable)
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            raise InputError(f"{callback!r} is not a Keras callback; leave it out.")
        name = type(callback).__name__
        for refused, reason in _REFUSED_CALLBACKS.items():
            if isinstance(callback, refused):
                raise InputError(f"fine_tune {reason}; leave the callback {name} out.")
        if isinstance(callback, _RATE_CALLBACKS) and not constant:
            raise InputError(
                f"{name} sets the learning rate, but a schedule sets it, too; give an optimizer "
                "with a constant rate, such as KerasAdamW(5e-5), or leave the callback out."
            )


def _check_optimizer(optimizer: Any, model: Any, recipe: Recipe) -> None:
    name, strategy = type(optimizer).__name__, model.distribute_strategy
    if optimizer.built:
        raise InputError(f"The {name} was used before; give a new optimizer to each run.")
    inner = _inner(optimizer)
    ours = isinstance(inner, KerasAdamW)
    steps, wanted = inner.gradient_accumulation_steps or 1, recipe.gradient_accumulation_steps
    if steps != wanted or (steps > 1 and not ours):
        raise InputError(
            f"The {name} has gradient_accumulation_steps={steps} and the recipe "
            f"gradient_accumulation_steps={wanted}; give the same number to both, and more than 1 "
            "only to KerasAdamW."
        )
    replicas = strategy.num_replicas_in_sync
    if replicas > 1 and optimizer._distribution_strategy is not strategy:
        raise InputError(
            f"The {name} was made outside of the scope of the model's strategy; make it inside the "
            "scope, or give a function that makes it."
        )
    unsupported = ("use_ema",) if ours else ("use_ema", "global_clipnorm")
    wrong = [option for option in unsupported if getattr(inner, option)]
    if replicas > 1 and wrong:
        raise InputError(
            f"The {name} has {wrong[0]}, which Keras does not support on {replicas} devices; leave "
            "it out, or train on one device."
        )


def _check_loss(loss: Any, model: Any, recipe: Recipe) -> None:
    if isinstance(loss, str) or not callable(loss):
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
    if not isinstance(loss, keras.losses.Loss):
        return
    name = type(loss).__name__
    if loss.get_config().get("from_logits") is False:
        raise InputError(
            f"The {name} expects probabilities, but the model returns logits; give it "
            "from_logits=True."
        )
    if loss.reduction != "sum_over_batch_size":
        raise InputError(
            f"The {name} has the reduction {loss.reduction!r}, but batches are divided among "
            "devices and micro-batches; give it reduction='sum_over_batch_size'."
        )


def _check_metrics(metrics: Sequence[Any], model: Any, recipe: Recipe, own: Sequence[str]) -> None:
    for metric in metrics:
        if not isinstance(metric, keras.metrics.Metric):
            advice = "leave it out: it is measured anyway" if metric in own else "give an object"
            raise InputError(
                f"metrics has {metric!r}, but needs metric objects, such as "
                f"keras.metrics.SparseTopKCategoricalAccuracy(3); {advice}."
            )
    names = [metric.name for metric in metrics]
    for name in names:
        if name in ("loss", *own) or names.count(name) > 1:
            raise InputError(f"Two metrics are called {name!r}; give one of them another name.")
    for metric in metrics:
        if False in (getattr(metric, field, None) for field in ("from_logits", "_from_logits")):
            raise InputError(
                f"The metric {metric.name!r} expects probabilities, but the model returns logits; "
                "give it from_logits=True."
            )
    if task_of(model) not in _MEASURED:
        raise InputError(
            f"metrics are for {class_names(_MEASURED)}, but a {type(model).__name__} has other "
            "targets; leave metrics out."
        )
    if model.distribute_strategy.num_replicas_in_sync > 1:
        raise InputError(
            "metrics are computed on one device only; leave them out, or train on one device."
        )
    for metric in metrics:
        if metric.name == recipe.metric and getattr(metric, "_direction", None) == "down":
            raise InputError(
                f"The recipe's metric is {metric.name!r}, but the best epoch is the one with the "
                "largest value. Smaller values of this metric are better; choose another metric."
            )


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
        super().__init__(name="loss")  # TensorFlow's scopes cannot have names such as <lambda>
        self.function = function

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return self.function(y_true, y_pred)


def check_first_batch(model: Any, dataset: Any, metrics: Sequence[Any]) -> None:
    """Computes the loss and the metrics of the first batch, to find one that does not fit.

    This also builds the loss. `fit` under a strategy would build it with token ids as floats.

    Args:
        model: compiled model.
        dataset: batches of inputs, targets and weights.
        metrics: Keras metrics.

    Raises:
        InputError: if the loss or a metric cannot be computed, or the loss is not one finite
            number.
    """
    x, y, weights = next(iter(dataset))
    with model.distribute_strategy.scope():
        outputs = model(x, training=False)
        shapes = [keras.tree.map_structure(lambda a: list(a.shape), each) for each in (y, outputs)]
        found = f"targets {shapes[0]} and outputs {shapes[1]}"
        with _refusing(f"The loss cannot be computed for {found}"):
            loss = model.compute_loss(x, y, outputs, weights, training=False)
    value = ops.convert_to_numpy(loss)
    if value.shape != () or not np.isfinite(value):
        raise InputError(
            f"The loss is {value} for {found} of the first batch, but must be one finite number; "
            "choose a loss for such targets and outputs."
        )
    for metric in metrics:
        with _refusing(f"The metric {metric.name} cannot be computed for {found}"):
            measure_metrics([metric], y, outputs)


@contextlib.contextmanager
def _refusing(message: str) -> Iterator[None]:
    """Raises an InputError for any error of Keras, TensorFlow or the user's function."""
    try:
        yield
    except Exception as error:
        raise InputError(f"{message}: {first_sentence(error)}.") from error


def measure_metrics(
    metrics: Sequence[Any], targets: Any, outputs: Sequence[np.ndarray]
) -> dict[str, float]:
    """Returns the values of Keras metrics on all examples of a split.

    Args:
        metrics: metrics with different names.
        targets: targets `[E]` or `[E, ...]`.
        outputs: the logits of each example, together `[E, L]`.
    """
    found = {}
    for metric in metrics:
        metric.reset_state()
        metric.update_state(targets, np.reshape(outputs, (len(targets), -1)))
        found[metric.name] = float(ops.convert_to_numpy(metric.result()))
        metric.reset_state()
    return found


@contextlib.contextmanager
def averaged(model: Any) -> Iterator[None]:
    """Gives a model the averaged weights of its optimizer while the `with` block runs.

    Without averages (`use_ema`), nothing changes.
    """
    if not _inner(model.optimizer).use_ema:
        yield
        return
    weights = [ops.convert_to_numpy(variable) for variable in model.trainable_variables]
    model.optimizer.finalize_variable_values(model.trainable_variables)
    try:
        yield
    finally:
        for variable, value in zip(model.trainable_variables, weights, strict=True):
            variable.assign(value)


def _is_optimizer(value: Any) -> bool:
    return isinstance(value, keras.optimizers.Optimizer)


def _inner(optimizer: Any) -> Any:
    """Returns the optimizer inside a `LossScaleOptimizer`, or else the optimizer itself."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def _configuration(value: Any) -> Any:
    """Returns the configuration of an object of Keras, ready for JSON, or the function's name."""
    if not isinstance(value, keras.optimizers.Optimizer | keras.losses.Loss | keras.metrics.Metric):
        name = getattr(value, "__qualname__", type(value).__qualname__)
        return f"{getattr(value, '__module__', '')}.{name}"
    config = dict(value.get_config())
    if not isinstance(value, keras.metrics.Metric):
        config.pop("name", None)  # Keras counts the optimizers of a process
    named = {"class_name": type(value).__name__, **config}
    return json.loads(json.dumps(named, default=str))
