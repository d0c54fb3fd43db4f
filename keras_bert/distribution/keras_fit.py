"""Keras' `fit` on several replicas: what it cannot do there, and several workers.

`pretrain` does all of it exactly; this is for those who want `fit`.
"""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from keras_bert.errors import InputError

REFUSED: dict[str, Callable[[keras.Model], Any]] = {
    # They end in a traceback of Keras:
    "jit_compile=True": lambda model: model.jit_compile is True,
    "steps_per_execution": lambda model: model.steps_per_execution > 1,
    "gradient_accumulation_steps": lambda model: (
        _of_keras(model.optimizer) and model.optimizer.gradient_accumulation_steps
    ),
    "use_ema": lambda model: _of_keras(model.optimizer) and model.optimizer.use_ema,
    # It clips the gradient of each replica before they are added, and says nothing:
    "global_clipnorm": lambda model: _of_keras(model.optimizer) and model.optimizer.global_clipnorm,
}
"""Options of `compile` and of Keras' optimizers to whether a compiled model has them."""


def prepare_fit(model: keras.Model) -> None:
    """To be called between `compile` and `fit`, for a model made in the scope of a strategy.

    With several workers it gives the model functions for training and evaluation of its own, since
    those of Keras cannot add up what the workers return. A dataset is then one of global batches.
    On replicas of one machine `fit` of Keras averages token ids where it builds a loss itself:
    call `model.compute_loss` on a batch in the scope of the strategy first, as `finetuning` does.

    Raises:
        InputError: if Keras would fail with an option, or silently do something else.
    """
    strategy = model.distribute_strategy
    if strategy.num_replicas_in_sync == 1:
        return
    wrong = [name for name, is_set in REFUSED.items() if is_set(model)]
    if wrong:
        raise InputError(
            f"Keras' fit cannot do {' and '.join(wrong)} on {strategy.num_replicas_in_sync} "
            "replicas; leave it out, or use keras-bert pretrain or finetune, which can."
        )
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        model.train_function = _of_workers(strategy, model.train_step)
        model.test_function = _of_workers(strategy, model.test_step)
        model._maybe_symbolic_build = lambda **_: None  # it fails; the first step builds as well


def _of_keras(optimizer: Any) -> bool:
    """Whether it is one of Keras' own; those of `keras_bert.finetuning` know better."""
    return type(optimizer).__module__.partition(".")[0] == "keras"


def _of_workers(strategy: tf.distribute.Strategy, step: Callable[[Any], Any]) -> Callable:
    @tf.function
    def one_step(iterator: Any) -> Any:
        results = strategy.run(step, args=(next(iterator),))
        return tf.nest.map_structure(
            lambda value: strategy.reduce(tf.distribute.ReduceOp.MEAN, value, axis=None), results
        )

    return one_step
