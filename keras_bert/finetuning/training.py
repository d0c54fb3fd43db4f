"""Fine-tuning as in the BERT paper (section A.3), with plain `model.fit`."""

import contextlib
import dataclasses
import logging
import math
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_bert.atomic import discard
from keras_bert.checkpoints.card import ModelCardData
from keras_bert.checkpoints.contents import check_saveable
from keras_bert.errors import InputError, closest
from keras_bert.extras import require_tensorflow_backend
from keras_bert.finetuning.baseline import measure_baseline
from keras_bert.finetuning.batching import batches, plan_batches
from keras_bert.finetuning.defaults import has_baseline, reads_baseline_vectors, resolve
from keras_bert.finetuning.evaluation import check_model
from keras_bert.finetuning.examples import Examples
from keras_bert.finetuning.freezing import adapted, frozen
from keras_bert.finetuning.jobs import Job, Targets, job_of
from keras_bert.finetuning.keras_objects import (
    KerasObjects,
    averaged,
    check_first_batch,
    measure_metrics,
    own_loss,
)
from keras_bert.finetuning.messages import (
    advice,
    baseline_sentence,
    overview,
    progress_callback,
    rate_to_change,
)
from keras_bert.finetuning.optimizer import adamw
from keras_bert.finetuning.recipe import Recipe
from keras_bert.finetuning.regularization import r_drop
from keras_bert.finetuning.result import Result, claimed, keeps_finished_run, write_result
from keras_bert.finetuning.resume import (
    KEEPS_FINISHED,
    UNFINISHED,
    load_best,
    load_progress,
    run_of,
    save_progress,
    set_dropout_seeds,
)
from keras_bert.progress import make_bar
from keras_bert.text.rows import Rows

logger = logging.getLogger(__name__)


def fine_tune(
    model: Any,
    train: Examples,
    validation: Examples | None = None,
    test: Examples | None = None,
    *,
    recipe: Recipe | None = None,
    output: str | os.PathLike | None = None,
    card: ModelCardData | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    optimizer: Any = None,
    loss: Any = None,
    metrics: Sequence[keras.metrics.Metric] = (),
    verbose: int | str = "auto",
) -> Result:
    """Trains a model on examples. Afterwards the model has the weights of its best epoch.

    If the model was made in the scope of a `tf.distribute.MirroredStrategy`, it is trained on all
    devices of the strategy. The result is the same as on one device, except for dropout. Other
    strategies with several replicas are refused.

    The model's preprocessor gets the recipe's `sequence_length`. If the result looks wrong, a
    warning says what to change: for example, if the training stopped too early, or the result is
    below the frozen baseline. If texts are cut, a warning gives the number of cut texts and of all
    texts.

    Args:
        model: a task with a preprocessor, with the labels of the examples; see `new_model`.
        train: training examples, such as `TextExamples` for a `SequenceClassifier`.
        validation: examples to measure every epoch on. The epoch with the highest metric is the
            best. A classifier that starts as the frozen baseline keeps these weights if no epoch
            has a higher metric, or the same metric and a lower loss. Then the best epoch is 0.
            Without validation examples, the last epoch is the best.
        test: examples to measure the best epoch on.
        recipe: options of the run. Options that are not given are chosen; see `resolve`. The
            values and their reasons are logged at the level INFO.
        output: directory for `model`, `metrics.json` and `history.jsonl`. With validation
            examples, they are written after each epoch that is the best so far, else at the end.
            If the directory holds a finished run, its files are replaced only at the end. If an
            interrupted run is started again with the same recipe, model and data, it continues
            after its last finished epoch, and the result is the same.
        card: more data for the model's card, such as license, language and base model.
        callbacks: callbacks of Keras. In `on_epoch_end`, they get the metrics of the validation
            examples under Keras' names, such as `val_accuracy` and `val_loss`. If an interrupted
            run continues, callbacks start anew.
        optimizer: a Keras optimizer, which replaces the recipe's optimizer with its learning rate,
            warm-up, weight decay, clipping and rates by layer. Or a function that takes the
            recipe's schedule of learning rates and returns an optimizer, such as
            `keras.optimizers.Lion`. If the optimizer has `use_ema=True`, the averaged weights are
            measured and saved.
        loss: a Keras loss, or a function of targets and outputs that returns one value for each
            example. It replaces the model's own loss, also in the metrics of the result. The
            outputs are logits. The target of a token without a label is -1.
        metrics: Keras metrics that are measured on training, validation and test examples, besides
            the model's own. Only for classifiers of texts and for multiple choice.
        verbose: as in `fit`. "auto" shows a bar of all steps on a terminal, else a line per epoch.

    Returns:
        Number of the best epoch (0: the frozen baseline), its metrics on the validation and test
        examples, the loss and metrics of each epoch, and the metrics of the frozen baseline.

    Raises:
        InputError: if the model, the labels, the recipe, the card, an object of Keras or the
            output directory is unsuitable, another run writes to the directory, or the loss
            becomes nan.
        CheckpointError: if the state of an interrupted run is damaged.

    Example:
        >>> examples = read("classifier", "train.csv")
        >>> model = new_model("classifier", "pretrained", examples)
        >>> train, validation = hold_out(examples, 0.1)
        >>> fine_tune(model, train, validation, output="run").validation["accuracy"]
        0.97
    """
    require_tensorflow_backend("Fine-tuning")
    job = job_of(model)
    check_model(model)
    _check_strategy(model.distribute_strategy)
    if not isinstance(card, ModelCardData | None):
        raise InputError(
            f"card must be ModelCardData for the model's card, not a {type(card).__name__}."
        )
    recipe, objects = recipe or Recipe(), KerasObjects(callbacks, optimizer, loss, metrics)
    objects.check(model, recipe, job.metrics(model))
    for name in ("baseline", "metric", "patience"):
        if (value := getattr(recipe, name)) and validation is None:
            raise InputError(
                f"{name} is {value!r}, but there are no validation examples; give some."
            )
    recipe, choices = resolve(
        recipe, model, train, objects.replaced, validation=validation is not None
    )
    names = (*job.metrics(model), *(metric.name for metric in metrics))
    _check_recipe(model, names, recipe, getattr(train, "pairs", None) is not None)
    if recipe.sequence_length not in (None, getattr(model.preprocessor, "sequence_length", None)):
        model.preprocessor = model.preprocessor.with_length(recipe.sequence_length)
        check_model(model)
    directory = None if output is None else Path(output)
    if directory is not None:
        check_saveable(model, adapted=recipe.lora_rank is not None)
    train_split = _Split.of(job, model, train)
    # Find wrong labels in the other examples now, not after hours of training.
    validation_split, test_split = (
        None if examples is None else _Split.of(job, model, examples)
        for examples in (validation, test)
    )
    all_splits = (train_split, validation_split, test_split)
    model.warn_of_cut_texts(*(split.rows for split in all_splits if split is not None))
    weights = job.weights(model, train, train_split.targets, recipe)
    given: dict[str, Any] = {"training": train, "validation": validation, "test": test}
    splits = {name: examples for name, examples in given.items() if examples is not None}
    sizes = {name: len(examples) for name, examples in splits.items()}
    logger.info("%s", overview(choices, sizes, len(getattr(model, "labels", ()))))

    strategy = model.distribute_strategy
    plan = partial(
        plan_batches,
        train_split.rows,
        train_split.targets,
        batch_size=recipe.batch_size,
        seed=recipe.seed,
        length_buckets=recipe.length_buckets,
        replicas=strategy.num_replicas_in_sync,
        gradient_accumulation_steps=recipe.gradient_accumulation_steps,
    )
    steps = plan(epochs=range(1)).steps
    with (
        contextlib.nullcontext() if directory is None else claimed(directory),
        adapted(model, recipe.lora_rank, recipe.seed),
        frozen(model, recipe.frozen_layers),
        r_drop(model, recipe.r_drop),
        own_loss(model, loss),
    ):
        with strategy.scope():
            updates = recipe.epochs * steps // recipe.gradient_accumulation_steps
            make = adamw if optimizer is None else objects.make_optimizer
            model.compile(
                make(model, recipe, updates),
                job.loss(model, recipe),
                weighted_metrics=list(metrics) or None,
                jit_compile=False,
            )
            model.optimizer.build(model.trainable_variables)
        options = objects.options(recipe, model)
        write = partial(
            write_result, options=options, splits=splits, card_data=card or ModelCardData()
        )
        metric = recipe.metric or job.metrics(model)[0]
        keeps = directory is not None and keeps_finished_run(directory)
        epochs = _Epochs(job, validation_split, recipe, metrics, metric, keeps, directory, write)
        done = epochs.resume(model, options, [s for s in (train_split, validation_split) if s])
        unfinished = done < recipe.epochs and not epochs.stopped
        if unfinished:
            whole = plan(weights=weights, epochs=range(done, recipe.epochs))
            dataset = batches(train_split.rows, train_split.targets, whole)
            if loss is not None or metrics or strategy.num_replicas_in_sync > 1:
                check_first_batch(model, dataset, metrics)
        if recipe.baseline and validation_split is not None and not done:
            best, epochs.result.baseline = measure_baseline(model, recipe, splits, metrics)
            if recipe.baseline_head:
                model.head.logits.kernel.assign(best.kernel)
                model.head.logits.bias.assign(best.bias)
                epochs.start_from(model)
            logger.info("%s", baseline_sentence(epochs.result.baseline, names))
        if unfinished:
            show = verbose == "auto" and sys.stderr.isatty()
            with make_bar(recipe.epochs * steps, done * steps, show) as bar:
                # Save after the user's callbacks, which may change a rate or stop the training.
                saving = keras.callbacks.LambdaCallback(on_epoch_end=epochs.save)
                progress = [progress_callback(bar, recipe.epochs, metric)] if show else []
                model.fit(
                    dataset.prefetch(tf.data.AUTOTUNE),
                    steps_per_epoch=steps,
                    initial_epoch=done,
                    epochs=recipe.epochs,
                    callbacks=[epochs, *callbacks, saving, *progress],
                    shuffle=False,
                    verbose=0 if show else 2 if verbose == "auto" else verbose,
                )
        model.optimizer.finalize_variable_values(model.trainable_variables)  # averages, if any
        epochs.restore(model)
        result = epochs.result
        if test_split is not None:
            result.test = test_split.measure(job, model, recipe.batch_size, metrics)
        if directory is not None:
            write(model, result, output=directory)
            discard(directory / UNFINISHED)
    one_label = getattr(model, "problem_type", "") == "single_label"
    labels = (getattr(validation, "labels", None) or ()) if one_label else ()
    if sentence := advice(result, recipe, metric, len(validation or ()), labels):
        logger.warning("%s", sentence)
    return result


@dataclasses.dataclass(frozen=True)
class _Split:
    """Examples with their rows and targets, which are the same in every epoch."""

    examples: Examples
    rows: Rows
    targets: Targets

    @classmethod
    def of(cls, job: Job, model: Any, examples: Examples) -> "_Split":
        rows = job.rows(model, examples)
        return cls(examples, rows, job.targets(model, examples, rows))

    def measure(
        self, job: Job, model: Any, batch_size: int, metrics: Sequence[Any]
    ) -> dict[str, float]:
        outputs = model.predict_rows(self.rows, batch_size)
        own = job.measure(model, self.examples, self.rows, outputs)
        return {**own, **measure_metrics(metrics, self.targets.values, outputs)}


@dataclasses.dataclass(eq=False)
class _Epochs(keras.callbacks.Callback):
    """Measures every epoch, keeps the weights of the best one, and stops early."""

    job: Job
    validation: _Split | None
    recipe: Recipe
    metrics: Sequence[Any]
    metric: str  # chooses the best epoch
    keeps_finished: bool  # write the result only at the end, because of an earlier run's result
    output: Path | None
    write: Callable[..., None]

    def __post_init__(self) -> None:
        super().__init__()
        self.result = Result()
        self.run = ""
        self.stopped = False
        self.best_weights: list[Any] | None = None  # None: the model itself has them

    def resume(self, model: Any, options: dict[str, Any], splits: list[_Split]) -> int:
        """Continues an interrupted run; returns the number of finished epochs."""
        if self.output is None:
            return 0
        self.run = run_of(model, options, [(s.rows, s.targets) for s in splits])
        progress = load_progress(self.output, model, self.run)
        if progress is None:
            return 0
        self.result, self.stopped = Result(**progress["result"]), progress["stopped"]
        if self.result.best_epoch < progress["epoch"]:
            self.best_weights = load_best(self.output, model)
        elif self.validation is not None:
            with averaged(model):
                self.best_weights = model.get_weights()
                if not self.keeps_finished:
                    self.write(model, self.result, output=self.output)
        return progress["epoch"]

    def start_from(self, model: Any) -> None:
        """Makes the model before training the best one so far, as epoch 0."""
        self.best_weights = model.get_weights()
        self.result.validation = self._measure(model)

    def restore(self, model: Any) -> None:
        if self.best_weights is not None:
            model.set_weights(self.best_weights)

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        set_dropout_seeds(self.model, self.recipe.seed, epoch)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if math.isnan((logs or {}).get("loss", 0.0)):  # the mean of the epoch so far
            raise InputError(
                f"The loss is not a number from step {batch + 1} of this epoch on, so the model "
                f"cannot learn any more. Try a lower {rate_to_change(self.recipe)}, or compute in "
                "float32."
            )

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = {} if logs is None else logs
        result, done = self.result, epoch + 1
        with averaged(self.model):
            metrics = self._measure(self.model)
            if self._is_best(metrics):
                result.best_epoch, result.validation = done, metrics
                self.best_weights = self.model.get_weights() if self.validation else None
        entry = {**logs, **{f"validation_{name}": value for name, value in metrics.items()}}
        result.history.append({"epoch": done, **{k: float(v) for k, v in entry.items()}})
        # `fit` prints these values, and other callbacks get them.
        logs.update({f"val_{name}": value for name, value in metrics.items()})
        patience = self.recipe.patience
        if metrics and patience is not None and done - max(result.best_epoch, 1) >= patience:
            self.model.stop_training = True

    def save(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Saves the epoch, after `on_epoch_end` of all callbacks."""
        if self.output is None:
            return
        result, done = self.result, epoch + 1
        best = result.best_epoch == done
        # Save the progress first: if the process dies while it writes the model, `resume` writes
        # the model again.
        progress = {"run": self.run, "epoch": done, "result": dataclasses.asdict(result)}
        progress["stopped"] = bool(self.model.stop_training)
        progress[KEEPS_FINISHED] = self.keeps_finished
        save_progress(self.output, self.model, progress, None if best else self.best_weights)
        if best and self.validation is not None and not self.keeps_finished:
            with averaged(self.model):
                self.write(self.model, result, output=self.output)

    def _measure(self, model: Any) -> dict[str, float]:
        """Returns the metrics of the validation examples; empty if there are none."""
        if self.validation is None:
            return {}
        return self.validation.measure(self.job, model, self.recipe.batch_size, self.metrics)

    def _is_best(self, metrics: dict[str, float]) -> bool:
        best = self.result.validation
        if not metrics or not best:
            return True
        name = self.metric
        if math.isnan(metrics[name]):
            return False
        if metrics[name] == best[name] and not self.result.best_epoch:  # still the baseline
            return metrics["loss"] < best["loss"]
        return math.isnan(best[name]) or metrics[name] > best[name]


def _check_strategy(strategy: tf.distribute.Strategy) -> None:
    several = strategy.num_replicas_in_sync > 1
    if several and not isinstance(strategy, tf.distribute.MirroredStrategy):
        raise InputError(
            f"The model was made in the scope of a {type(strategy).__name__}, but fine-tuning "
            "needs one device or a MirroredStrategy, for the devices of one machine; make the "
            "model in such a scope."
        )


def _check_recipe(model: Any, names: Sequence[str], recipe: Recipe, pairs: bool) -> None:
    if recipe.baseline and not has_baseline(model):
        raise InputError(
            f"baseline is True, but this {type(model).__name__} does not choose labels for texts, "
            "so it has no frozen baseline; leave it out."
        )
    if recipe.baseline_head and not (recipe.baseline and reads_baseline_vectors(model, pairs)):
        raise InputError(
            "baseline_head is True, but only a linear layer on the mean of the tokens' vectors of "
            "single texts can start from a baseline that is measured; leave it out."
        )
    if recipe.metric is not None and recipe.metric not in names:
        raise InputError(
            f"metric is {recipe.metric!r}, but this model has no such metric."
            f"{closest(recipe.metric, names)} Choose one of {', '.join(names)}."
        )
    devices = model.distribute_strategy.num_replicas_in_sync
    if recipe.batch_size < devices * recipe.gradient_accumulation_steps:
        raise InputError(
            f"batch_size is {recipe.batch_size}, but must be at least "
            f"{devices * recipe.gradient_accumulation_steps}: one example for each of the "
            f"{recipe.gradient_accumulation_steps} micro-batches on {devices} devices."
        )
