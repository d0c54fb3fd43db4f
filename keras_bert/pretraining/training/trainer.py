"""Runs a pretraining: data, model, optimizer, and a loop of steps with hooks."""

import contextlib
import dataclasses
import json
import logging
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from tqdm import tqdm

from keras_bert.atomic import locked
from keras_bert.checkpoints import is_on_hub, save
from keras_bert.checkpoints.card import ModelCardData
from keras_bert.checkpoints.hub import repository
from keras_bert.config import EncoderConfig
from keras_bert.distribution.strategy import (
    check_batch,
    fast_precision,
    has_gpus,
    make_strategy,
)
from keras_bert.distribution.workers import Workers
from keras_bert.errors import InputError
from keras_bert.extras import require_tensorflow_backend
from keras_bert.optimizers.distributed import OPTIMIZERS, AdamW
from keras_bert.optimizers.loss_scale import LossScale
from keras_bert.optimizers.schedules import LR_SCHEDULES
from keras_bert.options import set_option
from keras_bert.pretraining.background import Background, stop_requests
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.data.data_service import on_data_host_failure
from keras_bert.pretraining.data.input_pipeline import Examples, num_batches
from keras_bert.pretraining.data.stream import ExampleBlock, ExampleStream, Place, index_block
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.resolve import encoder_config, resolve
from keras_bert.pretraining.training.checkpoints import (
    Snapshot,
    checkpoint_path,
    remove_passed_over,
    remove_unfinished,
    restore_checkpoint,
    take_snapshot,
)
from keras_bert.pretraining.training.hooks import (
    BatchRamp,
    CheckpointWriter,
    Evaluation,
    Hook,
    LogHook,
    LoopResult,
    LossWatch,
)
from keras_bert.pretraining.training.inputs import make_examples, make_preprocessor
from keras_bert.pretraining.training.model_card import pretraining_card_data
from keras_bert.pretraining.training.run_directory import (
    check_directory,
    claim_directory,
    describe_run,
    earlier_option,
)
from keras_bert.pretraining.training.run_log import RunLog
from keras_bert.pretraining.training.step import TrainingStep, trainable_variables
from keras_bert.pretraining.training.throughput import Throughput
from keras_bert.progress import make_bar
from keras_bert.text.preprocessor import Preprocessor

logger = logging.getLogger(__name__)


def pretrain(config: PretrainingConfig, progress: bool = True) -> dict[str, Any]:
    """Trains an encoder on text, or continues an interrupted run.

    If the output directory is empty or missing, a new run starts. If the directory holds a run with
    the same configuration, the run continues from its last checkpoint. On CPUs, an interrupted run
    ends with exactly the same weights as a run without interruption. Ctrl-C and SIGTERM save a
    checkpoint first.

    Args:
        config: configuration of the run.
        progress: whether to show a progress bar on standard error.

    Returns:
        A dictionary:

        - `finished`: false if the run was interrupted.
        - `step`, `steps`: number of steps done, and number of steps of the whole run.
        - `model`: directory of the final model, or None if the run was interrupted.
        - `before`, `after`: held-out losses and accuracies before and after the run, or None.
        - `train`: last losses and accuracies on training text.
        - `examples_per_epoch`: number of examples in the first epoch. It is estimated for records
          in several blocks, and None for text in several blocks.
        - `unreadable_files`: number of files that were left out; see `data.unreadable_files`. If
          each worker reads its own files, the files of other workers do not count.
        - `best`: checkpoint with the lowest held-out loss, or None.
        - `chief`: whether this process writes files.
        - `seconds`: duration of this call.

    Raises:
        InputError: if the text, the vocabulary, the options or the directory cannot be used,
            another run writes to the directory, or the loss diverges.
        StorageError: if a file cannot be written.
        WorkerLostError: if another worker or a data host has stopped.

    Example:
        >>> config = read_config("pretrain.yaml", ["schedule.steps=1000"])
        >>> pretrain(config)["after"]["mlm_loss"]
    """
    require_tensorflow_backend("Pretraining")
    started = time.monotonic()
    config = resolve(config)
    strategy = make_strategy(config.devices.strategy, config.devices.cluster)
    if config.devices.precision == "auto":
        config = _with_precision(config, strategy)
    workers = Workers(strategy)
    with contextlib.ExitStack() as stack:
        if workers.is_chief:
            stack.enter_context(locked(config.output))
            check_directory(Path(config.output), config)
        preprocessor = make_preprocessor(config)
        encoder = encoder_config(config, len(preprocessor.vocabulary))
        for name in ("first_batch_size", "batch_size"):
            if size := getattr(config.schedule, name):
                parts = config.devices.gradient_accumulation_steps
                check_batch(strategy, size, parts, f"schedule.{name}")
        training, validation = make_examples(config, preprocessor, workers.index, workers.number)
        if config.devices.data_service:
            stack.enter_context(on_data_host_failure(config.devices.data_service))
        stack.enter_context(workers.on_worker_failure())
        stop_requested = stack.enter_context(stop_requests())
        trainer = Trainer(config, strategy, workers, training, validation, preprocessor, encoder)
        finished = trainer.train(
            lambda: workers.any_reduce(stop_requested()), progress and workers.is_chief
        )
        results = trainer.results()
    seconds = time.monotonic() - started
    return {**results, "finished": finished, "chief": workers.is_chief, "seconds": seconds}


def _with_precision(
    config: PretrainingConfig, strategy: tf.distribute.Strategy
) -> PretrainingConfig:
    """Replaces "auto" by the precision of the run that continues, or else by the fastest one."""
    earlier = earlier_option(Path(config.output), "devices.precision")
    precision, reason = (earlier, "the run began with it") if earlier else fast_precision(strategy)
    logger.info("Precision: %s, because %s.", precision, reason)
    values = config.to_dict()
    set_option(values, "devices.precision", precision)
    return PretrainingConfig.from_dict(values)


class Trainer:
    """A pretraining run: its model, data and optimizer, its current step, and its hooks."""

    def __init__(
        self,
        config: PretrainingConfig,
        strategy: tf.distribute.Strategy,
        workers: Workers,
        training: ExampleStream,
        validation: Examples | None,
        preprocessor: Preprocessor,
        encoder_config: EncoderConfig,
    ):
        self.config = config
        self.objective = OBJECTIVES[config.objective.name]
        self.strategy = strategy
        self.workers = workers
        self.training = training
        self.validation = index_block(validation, "held-out") if validation else None
        self.directory = Path(config.output)
        self._checkpoint_directory = self.directory / "checkpoints"
        # Check this now. A local directory may be deleted before the run ends, and its path would
        # then be taken for a name on the hub.
        source = config.model.init_checkpoint
        self.base_model = repository(source) if source and is_on_hub(source) else None
        self.examples_per_epoch = training.examples_per_epoch
        schedule, devices = config.schedule, config.devices
        if schedule.epochs and self.examples_per_epoch is None:
            raise InputError(
                "schedule.epochs needs the length of the corpus, which is not known before the "
                "text is read, because it exceeds data.memory; give schedule.steps, raise "
                "data.memory, or tokenize the corpus with keras-bert tokenize."
            )
        self.ramp = BatchRamp(
            first=schedule.first_batch_size or schedule.batch_size,
            full=schedule.batch_size,
            steps=schedule.batch_ramp_steps or 0,
        )
        # Epochs differ a little in length. The first epoch's length decides the number of steps.
        self.steps = schedule.steps or self.ramp.steps_for(
            schedule.epochs or 0, self.examples_per_epoch or 0
        )
        keras.utils.set_random_seed(config.seed)
        with strategy.scope():
            policy = keras.dtype_policies.get(devices.precision)
            self.model = self.objective.model(encoder_config, config, preprocessor, policy)
            self.optimizer = make_optimizer(config, trainable_variables(self.model), self.steps)
        self.training_step = TrainingStep(
            self.model,
            self.optimizer,
            strategy,
            objective=self.objective,
            seed=config.seed,
            gradient_accumulation_steps=devices.gradient_accumulation_steps,
            global_clipnorm=config.optimizer.global_clipnorm,
            jit_compile=has_gpus() if devices.jit_compile is None else devices.jit_compile,
        )
        self.throughput = Throughput(
            self.model,
            strategy,
            length=config.data.sequence_length,
            max_predictions_per_seq=training.examples.masking.max_predictions_per_seq,
            peak=devices.peak_teraflops,
        )
        held_out = validation.corpus.checksum if validation else 0
        run = describe_run(config, training.checksum, held_out, self.model)
        workers.check_same(zlib.crc32(json.dumps(run).encode()), "options, texts and vocabulary")
        if workers.is_chief:
            claim_directory(self.directory, run)
            remove_unfinished(self._checkpoint_directory)
        progress = restore_checkpoint(self._checkpoint_directory, self.optimizer) or {}
        self.step = int(progress.get("step", 0))
        fields = [field.name for field in dataclasses.fields(Place)]
        self.place = Place(**{name: progress[name] for name in fields if name in progress})
        self.blocks = training.blocks(self.place)
        self.block: ExampleBlock | None = None
        workers.check_same(self.step, "checkpoints; output must be a directory that all share")
        if workers.is_chief:  # all workers have restored the checkpoint
            remove_passed_over(self._checkpoint_directory, self.step)
        self.run_log = RunLog(self.directory, self.step, writes=workers.is_chief)
        self.background = Background()
        self.hooks: list[tuple[Hook, int | None, bool]] = []
        watch = LossWatch(self.run_log.rows)
        self.evaluate = Evaluation(
            self.training_step.evaluate,
            self.objective,
            self._validation_batches if validation else None,
            self.run_log,
        )
        self.checkpoint_writer = CheckpointWriter(
            directory=self._checkpoint_directory,
            background=self.background,
            run_log=self.run_log,
            watch=watch,
            keep=config.logging.keep_checkpoints,
            saved=self.step,
            snapshot=self._snapshot if workers.is_chief else None,
        )

    def add_hook(self, hook: Hook, *, every: int | None = None, at_end: bool = False) -> None:
        """Adds a function to call between two loops of steps. Hooks run in the order of addition.

        Args:
            hook: function of the result of the last loop.
            every: interval in steps. A loop ends at each interval. By default, the hook is called
                after each loop.
            at_end: whether to call the hook after the last step, too.
        """
        self.hooks.append((hook, every, at_end))

    def train(self, stop_requested: Callable[[], bool], progress: bool) -> bool:
        """Trains to the end or until a stop is requested. Returns whether the end was reached."""
        if self.step:
            logger.info("Continuing %s from step %d.", self.directory, self.step)
        every = self.config.logging.evaluate_every or self.steps
        if self.step == self.steps or self.step % every == 0:
            self.evaluate(self.step)
        with (
            make_bar(self.steps, self.step, progress) as bar,
            self.background,
            contextlib.closing(self.blocks),
        ):
            self._add_hooks(bar)
            while self.step < self.steps and not stop_requested():
                self._train_span(stop_requested)
            self.checkpoint_writer.save(self.step)
        self.run_log.close()
        finished = self.step >= self.steps
        if finished and self.workers.is_chief:
            model = self.objective.final_model(self.model)
            save(model, self.directory / "model", card=self._card_data(model))
        self.workers.barrier()  # no worker finishes before the chief
        return finished

    def _add_hooks(self, bar: tqdm) -> None:
        options, writer = self.config.logging, self.checkpoint_writer

        def evaluate(result: LoopResult) -> None:
            self.evaluate(result.step)
            if self.run_log.best_step() == result.step:
                writer.save(result.step)

        self.add_hook(writer.check_losses)
        self.add_hook(LogHook(self.run_log, self.optimizer, self.throughput, bar))
        self.add_hook(evaluate, every=options.evaluate_every or self.steps, at_end=True)
        self.add_hook(lambda result: writer.save(result.step), every=options.checkpoint_every)
        self.add_hook(writer.retry)

    def results(self) -> dict[str, Any]:
        """Returns the results of the run, which `pretrain` returns."""
        best = self.run_log.best_step()
        best_path = None if best is None else checkpoint_path(self._checkpoint_directory, best)
        return {
            "step": self.step,
            "steps": self.steps,
            "model": str(self.directory / "model") if self.step >= self.steps else None,
            "before": self.run_log.find("validation", 0),
            "after": self.run_log.find("validation", self.steps),
            "train": self.run_log.find("train"),
            "examples_per_epoch": self.examples_per_epoch,
            "unreadable_files": len({file for _, file in self.run_log.unreadable()}),
            "best": str(best_path) if best_path and best_path.exists() else None,
        }

    def _train_span(self, stop_requested: Callable[[], bool]) -> None:
        """Trains to the end of the block, or until the batch size grows if that comes first."""
        if self.block is None:
            self.block = self.training.synchronize(next(self.blocks), self.workers)
            self.place = dataclasses.replace(self.block.place, example=self.place.example)
            self.run_log.add_unreadable(self.step, self.place.epoch, self.block.unreadable)
        size, block = self.ramp.at(self.step), self.block
        iterator = block.distributed_batches(self.strategy, size, start=self.place.example)
        batches = num_batches(len(block) - self.place.example, size)
        end = min(self.step + min(batches, self.ramp.until_change(self.step)), self.steps)
        while self.step < end and not stop_requested():
            count = min(self._until_next_event(), end - self.step)
            result = self._train_steps(iterator, count, size)
            for hook, every, at_end in self.hooks:
                is_end = at_end and self.step == self.steps
                if every is None or self.step % every == 0 or is_end:
                    hook(result)

    def _train_steps(self, iterator: Iterator, count: int, size: int) -> LoopResult:
        train = self.training_step.train
        began, traces = time.monotonic(), train.experimental_get_tracing_count()
        outputs = train(iterator, tf.constant(count, tf.int32))
        self.step += count
        self.place = dataclasses.replace(self.place, example=self.place.example + count * size)
        result = LoopResult(
            step=self.step,
            epoch=self.place.epoch,
            steps=count,
            batch_size=size,
            measures=self.objective.measures(outputs["sums"].numpy().tolist()),
            gradient_norm=float(outputs["gradient_norm"]),
            tokens=int(outputs["tokens"]),
            seconds=time.monotonic() - began,
            traced=train.experimental_get_tracing_count() > traces,
        )
        assert self.block is not None
        if self.place.example >= len(self.block):
            self.place, self.block = self.block.next_place, None
        return result

    def _until_next_event(self) -> int:
        """Returns the number of steps until a hook is due or the loop is full.

        The number depends only on the current step, so a continued run logs the same rows.
        """
        intervals = [self.config.logging.steps_per_loop]
        intervals += [every for _, every, _ in self.hooks if every]
        return min(every - self.step % every for every in intervals)

    def _validation_batches(self) -> Iterable:
        config = self.config
        assert self.validation is not None
        return self.validation.distributed_batches(
            self.strategy,
            # Held-out batches have the size of a micro-batch in training.
            config.schedule.batch_size // config.devices.gradient_accumulation_steps,
            limit=config.data.validation_examples,
        )

    def _snapshot(self) -> Snapshot:
        place = {"step": self.step, **dataclasses.asdict(self.place)}
        model = self.objective.final_model(self.model)
        return take_snapshot(model, self.optimizer, place, self._card_data(model))

    def _card_data(self, model: keras.Model) -> ModelCardData:
        return pretraining_card_data(
            model,
            self.config,
            base_model=self.base_model,
            step=self.step,
            steps=self.steps,
            examples=self.examples_per_epoch,
            measured={
                "training": self.run_log.find("train"),
                "held-out": self.run_log.find("validation"),
            },
        )


def make_optimizer(
    config: PretrainingConfig, variables: Mapping[str, tf.Variable], steps: int
) -> AdamW:
    """Makes the optimizer and its learning-rate schedule for a run of `steps` steps."""
    options, schedule = config.optimizer, config.schedule
    ratio = schedule.warmup_ratio
    warmup = schedule.warmup_steps if ratio is None else round(ratio * steps)
    if warmup >= steps:
        logger.warning(
            "The warm-up of %d steps takes the whole run of %d steps; give a smaller "
            "schedule.warmup_steps.",
            *(warmup, steps),
        )
    ratio = schedule.decay_ratio
    decay = None if ratio is None else round(ratio * steps)
    learning_rate = LR_SCHEDULES[schedule.lr_schedule](
        options.learning_rate, warmup, steps, schedule.final_learning_rate, decay
    )
    return OPTIMIZERS[options.name](
        variables,
        learning_rate,
        weight_decay=options.weight_decay,
        betas=(options.beta_1, options.beta_2),
        epsilon=options.epsilon,
        loss_scale=LossScale() if config.devices.precision == "mixed_float16" else None,
    )
