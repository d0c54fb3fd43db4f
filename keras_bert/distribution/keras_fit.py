"""Prepares a model for Keras' `fit` on several replicas or workers.

`pretrain` does not need this module. It is for users who want to call `fit` themselves.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_bert.errors import InputError

REFUSED: dict[str, Callable[[keras.Model], Any]] = {
    # With these options, Keras raises an error:
    "jit_compile=True": lambda model: model.jit_compile is True,
    "steps_per_execution": lambda model: model.steps_per_execution > 1,
    "gradient_accumulation_steps": lambda model: (
        _of_keras(model.optimizer) and model.optimizer.gradient_accumulation_steps
    ),
    "use_ema": lambda model: _of_keras(model.optimizer) and model.optimizer.use_ema,
    # With this option, Keras silently clips each replica's gradient before gradients are added:
    "global_clipnorm": lambda model: _of_keras(model.optimizer) and model.optimizer.global_clipnorm,
}
"""Options that `fit` cannot use on several replicas, and functions that find them in a model."""


def prepare_fit(model: keras.Model) -> None:
    """Prepares a model that was made in the scope of a strategy for `fit`.

    Call this function between `compile` and `fit`. With several workers, it replaces Keras'
    functions for training and evaluation, because these cannot add up the results of the workers.
    Then a dataset must have global batches.

    With several replicas on one machine, Keras' `fit` averages token ids when it builds a loss. So
    first call `model.compute_loss` on a batch in the scope of the strategy, as `finetuning` does.

    Raises:
        InputError: if Keras would raise an error for an option, or silently do something else.
    """
    strategy = model.distribute_strategy
    if strategy.num_replicas_in_sync == 1:
        return
    wrong = [name for name, is_set in REFUSED.items() if is_set(model)]
    if wrong:
        raise InputError(
            f"Keras' fit does not support {' and '.join(wrong)} on "
            f"{strategy.num_replicas_in_sync} replicas; leave it out, or use keras-bert pretrain "
            "or finetune, which support it."
        )
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        model.train_function = _of_workers(strategy, model.train_step)
        model.test_function = _of_workers(strategy, model.test_step)
        model._maybe_symbolic_build = lambda **_: (
            None
        )  # it would fail; the first step builds the model


def _of_keras(optimizer: Any) -> bool:
    """Whether an optimizer is Keras' own. `keras_bert.finetuning`'s optimizer clips correctly."""
    return type(optimizer).__module__.partition(".")[0] == "keras"


def _of_workers(strategy: tf.distribute.Strategy, step: Callable[[Any], Any]) -> Callable:
    @tf.function
    def one_step(iterator: Any) -> Any:
        results = strategy.run(step, args=(next(iterator),))
        return tf.nest.map_structure(
            lambda value: strategy.reduce(tf.distribute.ReduceOp.MEAN, value, axis=None), results
        )

    return one_step
