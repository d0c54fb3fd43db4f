"""Pretraining from a configuration to a model."""

import json
import logging
import math
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from tqdm import tqdm

from keras_bert.checkpoints import save
from keras_bert.config import EncoderConfig
from keras_bert.errors import InputError
from keras_bert.pretraining.checkpoint import (
    remove_scratch,
    restore_checkpoint,
    save_checkpoint,
)
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.directory import check_directory, claim_directory, describe_run
from keras_bert.pretraining.examples import Examples, num_batches
from keras_bert.pretraining.inputs import make_examples, make_preprocessor
from keras_bert.pretraining.interruption import stop_requests
from keras_bert.pretraining.journal import Journal
from keras_bert.pretraining.objectives import OBJECTIVES
from keras_bert.pretraining.optimizers import make_optimizer
from keras_bert.pretraining.step import TrainingStep, trainable_variables
from keras_bert.pretraining.strategy import make_strategy
from keras_bert.pretraining.workers import Workers
from keras_bert.text.preprocessor import Preprocessor

logger = logging.getLogger(__name__)


def pretrain(config: PretrainingConfig, progress: bool = True) -> dict[str, Any]:
    """Trains an encoder on text, or continues to.

    The run's directory decides: an empty or missing one starts a run, one of the same
    configuration continues from its last checkpoint. The end is the same to the last bit, whether
    a run was interrupted or not. Ctrl-C and SIGTERM save a checkpoint first.

    Args:
        config: the run.
        progress: whether to show a progress bar on standard error.

    Returns:
        `finished` (false if interrupted), `step`, `steps`, `model` (its directory, when
        finished), `before` and `after` (held-out losses and accuracies, or None), `train` (the
        last losses and accuracies), `examples_per_epoch`, `seconds` (this session's).

    Raises:
        InputError: if the text, the vocabulary, the options or the directory cannot be used, the
            disk refuses, or the loss is no longer finite.

    Example:
        >>> config = PretrainingConfig.from_yaml("pretrain.yaml", ["steps=1000"])
        >>> pretrain(config)["after"]["mlm_loss"]
    """
    started = time.monotonic()
    strategy = make_strategy(config.strategy, config.cluster)
    workers = Workers(strategy)
    if workers.is_chief:
        check_directory(Path(config.output), config)
    preprocessor = make_preprocessor(config)
    encoder_config = config.encoder_config(len(preprocessor.vocabulary))
    _check_batch(config, strategy.num_replicas_in_sync)
    training, validation = make_examples(config, preprocessor)
    with workers.together(), stop_requests() as stop_requested:
        run = _Run(config, strategy, workers, training, validation, preprocessor, encoder_config)
        finished = run.train(lambda: workers.any(stop_requested()), progress and workers.is_chief)
    return {**run.results(), "finished": finished, "seconds": time.monotonic() - started}


class _Run:
    """A run while it runs: where it stands, and what it needs to go on."""

    def __init__(
        self,
        config: PretrainingConfig,
        strategy: tf.distribute.Strategy,
        workers: Workers,
        training: Examples,
        validation: Examples | None,
        preprocessor: Preprocessor,
        encoder_config: EncoderConfig,
    ):
        self.config = config
        self.objective = OBJECTIVES[config.objective]
        self.strategy = strategy
        self.workers = workers
        self.training = training
        self.validation = validation
        self.directory = Path(config.output)
        self.plan = training.plan(0)
        self.validation_plan = validation.plan(0) if validation else None
        self.examples_per_epoch = len(self.plan)
        self.steps = config.steps or _steps(config, self.plan)
        keras.utils.set_random_seed(config.seed)
        with strategy.scope():
            policy = keras.dtype_policies.get(config.precision)
            self.model = self.objective.model(encoder_config, config, preprocessor, policy)
            variables = trainable_variables(self.model)
            self.optimizer = make_optimizer(config, variables, self.steps)
        self.training_step = TrainingStep(
            self.model,
            self.optimizer,
            strategy,
            objective=self.objective,
            seed=config.seed,
            accumulation=config.accumulation,
            clip_norm=config.clip_norm,
            jit=_has_accelerator() if config.jit is None else config.jit,
        )
        run = describe_run(config, training.corpus, self.model)
        workers.check_same(zlib.crc32(json.dumps(run).encode()), "options, text and vocabulary")
        if workers.is_chief:
            claim_directory(self.directory, run)
            remove_scratch(self._checkpoints)
        place = restore_checkpoint(self._checkpoints, self.optimizer)
        place = place or {"step": 0, "epoch": 0, "batch": 0}
        self.step, self.epoch, self.batch = place["step"], place["epoch"], place["batch"]
        workers.check_same(self.step, "checkpoints; output must be a directory that all share")
        self.journal = Journal(self.directory, self.step, writes=workers.is_chief)

    @property
    def _checkpoints(self) -> Path:
        return self.directory / "checkpoints"

    def train(self, stop_requested: Callable[[], bool], progress: bool) -> bool:
        """To the end, or until a stop is requested; returns whether the end was reached."""
        if self.step:
            logger.info("Continuing %s from step %d.", self.directory, self.step)
        self._evaluate_if_due()
        bar = tqdm(
            total=self.steps, initial=self.step, unit="step", disable=not progress, smoothing=0.1
        )
        with bar:
            while self.step < self.steps and not stop_requested():
                self._train_epoch(stop_requested, bar)
        finished = self.step >= self.steps
        self._evaluate_if_due()
        self._save()
        self.journal.close()
        if finished and self.workers.is_chief:
            save(self.objective.kept(self.model), self.directory / "model")
        self.workers.meet()  # so that all have finished only if the chief has
        return finished

    def results(self) -> dict[str, Any]:
        """What `pretrain` returns of the run."""
        model = self.directory / "model"
        return {
            "step": self.step,
            "steps": self.steps,
            "model": str(model) if self.step >= self.steps else None,
            "before": self.journal.find("validation", 0),
            "after": self.journal.find("validation", self.steps),
            "train": self.journal.find("train"),
            "examples_per_epoch": self.examples_per_epoch,
        }

    def _train_epoch(self, stop_requested: Callable[[], bool], bar: tqdm) -> None:
        """From the current batch to the end of the epoch."""
        self.plan = self.training.plan(self.epoch) if self.epoch else self.plan
        batches = num_batches(self.plan, self.config.batch_size)
        iterator = self._batches(self.training, epoch=self.epoch, start=self.batch)
        while self.batch < batches and self.step < self.steps and not stop_requested():
            count = min(self._until_next_event(), batches - self.batch)
            self._train_steps(iterator, count, bar)
            if self.batch == batches:
                self.epoch, self.batch = self.epoch + 1, 0
            self._evaluate_if_due()
            if self.step % self.config.checkpoint_every == 0:
                self._save()
            if self.batch == 0:
                return

    def _train_steps(self, iterator: Iterator, count: int, bar: tqdm) -> None:
        began = time.monotonic()
        result = self.training_step.train(iterator, tf.constant(count, tf.int32))
        self.step += count
        self.batch += count
        measures = self.objective.measures(result["sums"].numpy().tolist())
        if not all(map(math.isfinite, measures.values())):
            raise InputError(
                f"The loss is no longer finite at step {self.step}; lower the learning_rate and "
                f"begin anew, or continue from the last checkpoint in {self._checkpoints}."
            )
        tokens_per_second = int(result["tokens"]) / (time.monotonic() - began)
        row = {
            "event": "train",
            "step": self.step,
            "epoch": self.epoch,
            **measures,
            "gradient_norm": float(result["gradient_norm"]),
            "learning_rate": float(self.optimizer.schedule(self.step - 1)),
            "tokens_per_second": tokens_per_second,
        }
        self.journal.write(row)
        shown = {name: f"{value:.3f}" for name, value in measures.items() if name != "loss"}
        bar.set_postfix({**shown, "tokens/s": f"{tokens_per_second:.0f}"}, refresh=False)
        bar.update(count)

    def _until_next_event(self) -> int:
        """Steps to the next look, evaluation, checkpoint or end, whichever comes first.

        It depends on the step alone, so a run that continues logs what it would have logged.
        """
        config = self.config
        intervals = (config.steps_per_loop, config.checkpoint_every, config.evaluate_every)
        distances = [every - self.step % every for every in intervals if every]
        return min(*distances, self.steps - self.step)

    def _evaluate_if_due(self) -> None:
        every = self.config.evaluate_every
        due = self.step in (0, self.steps) or (every and self.step % every == 0)
        if self.validation is None or not due or self.journal.find("validation", self.step):
            return
        total = sum(self.training_step.evaluate(batch) for batch in self._batches(self.validation))
        measures = self.objective.measures(total.numpy().tolist())
        self.journal.write({"event": "validation", "step": self.step, **measures})

    def _batches(self, examples: Examples, epoch: int = 0, start: int = 0) -> Iterator:
        """Distributed batches of an epoch; of held-out text as many as are wanted."""
        replicas = self.strategy.num_replicas_in_sync
        plan = self.plan if examples is self.training else self.validation_plan

        def dataset(context: tf.distribute.InputContext) -> tf.data.Dataset:
            local = replicas // context.num_input_pipelines
            batches = examples.dataset(
                self.config.batch_size,
                epoch=epoch,
                start=start,
                plan=plan,
                parts=replicas,
                first_part=context.input_pipeline_id * local,
                local_parts=local,
            )
            if examples is self.training:
                return batches
            wanted = math.ceil(self.config.validation_examples / self.config.batch_size)
            return batches.take(wanted * local)

        return iter(self.strategy.distribute_datasets_from_function(dataset))

    def _save(self) -> None:
        if not self.workers.is_chief or (self._checkpoints / f"step-{self.step:08d}").exists():
            return
        self.journal.flush()
        place = {"step": self.step, "epoch": self.epoch, "batch": self.batch}
        save_checkpoint(
            self._checkpoints,
            self.objective.kept(self.model),
            self.optimizer,
            place,
            keep=self.config.keep_checkpoints,
        )


def _steps(config: PretrainingConfig, first_plan: Any) -> int:
    """Epochs as steps; epochs differ a little in length, the first one is the measure."""
    return max(1, round((config.epochs or 0) * num_batches(first_plan, config.batch_size)))


def _has_accelerator() -> bool:
    return any(device.device_type != "CPU" for device in tf.config.list_logical_devices())


def _check_batch(config: PretrainingConfig, replicas: int) -> None:
    if config.batch_size % (replicas * config.accumulation):
        raise InputError(
            f"batch_size {config.batch_size} cannot be divided among {replicas} replicas and "
            f"{config.accumulation} parts (accumulation); choose a multiple of "
            f"{replicas * config.accumulation}."
        )
