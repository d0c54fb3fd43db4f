"""The loop of a run: train, look, evaluate, save, until the end or a wish to stop."""

import functools
import json
import logging
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from tqdm import tqdm

from keras_bert.checkpoints import is_on_hub, save
from keras_bert.checkpoints.card import Facts
from keras_bert.config import EncoderConfig
from keras_bert.distribution.strategy import profits_from_xla
from keras_bert.distribution.workers import Workers
from keras_bert.errors import InputError
from keras_bert.optimizers.distributed import OPTIMIZERS, AdamW
from keras_bert.optimizers.loss_scale import LossScale
from keras_bert.optimizers.schedules import DECAYS
from keras_bert.pretraining.background import Background
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.data.example_index import Plan
from keras_bert.pretraining.data.input_pipeline import Examples, distributed_batches, num_batches
from keras_bert.pretraining.data.records import verifying
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.training.batch_ramp import BatchRamp
from keras_bert.pretraining.training.checkpoints import (
    checkpoint_path,
    checkpoint_paths,
    remove_passed_over,
    remove_unfinished,
    restore_checkpoint,
    take_snapshot,
    write_checkpoint,
)
from keras_bert.pretraining.training.loss_watch import LossWatch
from keras_bert.pretraining.training.model_card import facts_of
from keras_bert.pretraining.training.progress import advance, make_bar
from keras_bert.pretraining.training.run_directory import claim_directory, describe_run
from keras_bert.pretraining.training.run_log import Journal
from keras_bert.pretraining.training.step import TrainingStep, trainable_variables
from keras_bert.pretraining.training.throughput import Throughput
from keras_bert.text.preprocessor import Preprocessor

logger = logging.getLogger(__name__)


class Run:
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
        # Asked now, since a directory may be gone before the run ends.
        self.base_model = config.initial if config.initial and is_on_hub(config.initial) else None
        self.plan, self.planned = _first_plan(training, "training"), 0
        self.validation_plan = _first_plan(validation, "held-out") if validation else None
        self.examples_per_epoch = len(self.plan)
        self.ramp = BatchRamp(
            first=config.first_batch_size or config.batch_size,
            full=config.batch_size,
            steps=config.batch_ramp_steps or 0,
        )
        # Epochs differ a little in length; the first one is the measure.
        self.steps = config.steps or self.ramp.steps_for(config.epochs or 0, len(self.plan))
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
            jit=profits_from_xla() if config.jit is None else config.jit,
        )
        self.throughput = Throughput(
            self.model,
            strategy,
            length=config.sequence_length,
            slots=training.masking.slots,
            peak=config.peak_teraflops,
        )
        held_out = validation.corpus if validation else None
        run = describe_run(config, training.corpus, held_out, self.model)
        workers.check_same(zlib.crc32(json.dumps(run).encode()), "options, texts and vocabulary")
        if workers.is_chief:
            claim_directory(self.directory, run)
            remove_unfinished(self._checkpoints)
        place = restore_checkpoint(self._checkpoints, self.optimizer)
        place = place or {"step": 0, "epoch": 0, "example": 0}
        self.step, self.epoch, self.example = place["step"], place["epoch"], place["example"]
        workers.check_same(self.step, "checkpoints; output must be a directory that all share")
        if workers.is_chief:  # now that all have restored
            remove_passed_over(self._checkpoints, self.step)
        self.saved = self.step
        self.journal = Journal(self.directory, self.step, writes=workers.is_chief)
        self.background = Background()
        self.failures: list[BaseException] = []  # of the last writes, one after the other
        self.watch = LossWatch()
        for row in self.journal.rows:
            if row["event"] == "train":
                self.watch.trouble(row["step"], {"loss": row["loss"]})

    @property
    def _checkpoints(self) -> Path:
        return self.directory / "checkpoints"

    def train(self, stop_requested: Callable[[], bool], progress: bool) -> bool:
        """To the end, or until a stop is requested; returns whether the end was reached."""
        if self.step:
            logger.info("Continuing %s from step %d.", self.directory, self.step)
        self._evaluate_if_due()
        corpora = [examples.corpus for examples in (self.training, self.validation) if examples]
        with (
            make_bar(self.steps, self.step, progress) as bar,
            self.background,
            verifying(corpora) as self.verification,
        ):
            while self.step < self.steps and not stop_requested():
                self._train_stretch(stop_requested, bar)
            self._evaluate_if_due()
            self.verification.wait()
            self._save()
        self.journal.close()
        finished = self.step >= self.steps
        if finished and self.workers.is_chief:
            model = self.objective.kept(self.model)
            save(model, self.directory / "model", card=self._facts(model))
        self.workers.part()  # so that all have finished only if the chief has
        return finished

    def results(self) -> dict[str, Any]:
        """What `pretrain` returns of the run."""
        model, best = self.directory / "model", self.journal.best_step()
        best_path = None if best is None else checkpoint_path(self._checkpoints, best)
        return {
            "step": self.step,
            "steps": self.steps,
            "model": str(model) if self.step >= self.steps else None,
            "before": self.journal.find("validation", 0),
            "after": self.journal.find("validation", self.steps),
            "train": self.journal.find("train"),
            "examples_per_epoch": self.examples_per_epoch,
            "best": str(best_path) if best_path and best_path.exists() else None,
        }

    def _train_stretch(self, stop_requested: Callable[[], bool], bar: tqdm) -> None:
        """From the current example to the end of the epoch or, before it, of this batch size."""
        if self.planned != self.epoch:
            self.plan, self.planned = self.training.plan(self.epoch), self.epoch
        size = self.ramp.at(self.step)
        iterator = distributed_batches(
            self.strategy,
            self.training,
            size,
            epoch=self.epoch,
            start=self.example,
            plan=self.plan,
        )
        batches = num_batches(len(self.plan) - self.example, size)
        end = min(self.step + min(batches, self.ramp.until_change(self.step)), self.steps)
        while self.step < end and not stop_requested():
            count = min(self._until_next_event(), end - self.step)
            self._train_steps(iterator, count, size, bar)
            if self.example >= len(self.plan):
                self.epoch, self.example = self.epoch + 1, 0
            is_best = self._evaluate_if_due() and self.journal.best_step() == self.step
            due = self.step % self.config.checkpoint_every == 0
            if is_best or due or self.background.has_failed():
                self._save()
            if len(self.failures) > 1:
                raise self.failures[-1]
            if self.verification.has_failed():
                self.verification.wait()

    def _train_steps(self, iterator: Iterator, count: int, size: int, bar: tqdm) -> None:
        train = self.training_step.train
        began, traces = time.monotonic(), train.experimental_get_tracing_count()
        result = train(iterator, tf.constant(count, tf.int32))
        self.step += count
        self.example += count * size
        measures = self.objective.measures(result["sums"].numpy().tolist())
        gradient_norm = float(result["gradient_norm"])
        self._check_losses(measures, gradient_norm)
        speed = self.throughput.measures(
            steps=count,
            batch_size=size,
            tokens=int(result["tokens"]),
            seconds=time.monotonic() - began,
        )
        row = {
            "event": "train",
            "step": self.step,
            "epoch": self.epoch,
            **measures,
            "gradient_norm": gradient_norm,
            "learning_rate": float(self.optimizer.schedule(self.step - 1)),
            "batch_size": size,
            **speed,
        }
        if self.optimizer.loss_scale is not None:
            row |= self.optimizer.loss_scale.measures
        self.journal.write(row)
        traced = train.experimental_get_tracing_count() > traces
        advance(bar, count, {**measures, **speed}, traced=traced)

    def _check_losses(self, measures: Mapping[str, float], gradient_norm: float) -> None:
        trouble = self.watch.trouble(self.step, {**measures, "gradient_norm": gradient_norm})
        if trouble:
            self._finish_writing()
            good = checkpoint_paths(self._checkpoints, self.watch.good_step)
            raise InputError(
                f"{trouble}. The last good checkpoint is {good[-1] if good else 'none'}; begin "
                f"another run with {'it as initial and ' if good else ''}a lower learning_rate."
            )

    def _until_next_event(self) -> int:
        """Steps to the next look, evaluation, checkpoint or end, whichever comes first.

        It depends on the step alone, so a run that continues logs what it would have logged.
        """
        config = self.config
        intervals = (config.steps_per_loop, config.checkpoint_every, config.evaluate_every)
        distances = [every - self.step % every for every in intervals if every]
        return min(*distances, self.steps - self.step)

    def _evaluate_if_due(self) -> bool:
        config = self.config
        every = config.evaluate_every
        due = self.step in (0, self.steps) or (every and self.step % every == 0)
        if self.validation is None or not due or self.journal.find("validation", self.step):
            return False
        batches = distributed_batches(
            self.strategy,
            self.validation,
            config.batch_size // config.accumulation,  # what a replica holds in training
            plan=self.validation_plan,
            limit=config.validation_examples,
        )
        total = sum(map(self.training_step.evaluate, batches))
        measures = self.objective.measures(total.numpy().tolist())
        measures |= self.objective.perplexities(measures)
        self.journal.write({"event": "validation", "step": self.step, **measures})
        return True

    def _save(self) -> None:
        if not self.workers.is_chief or self.saved == self.step:
            return
        self.verification.wait()  # no checkpoint has learned from damaged records
        self.saved = self.step
        self.journal.flush()
        self._finish_writing()  # rather than hold two copies
        place = {"step": self.step, "epoch": self.epoch, "example": self.example}
        model = self.objective.kept(self.model)
        snapshot = take_snapshot(model, self.optimizer, place, self._facts(model))
        self.background.start(
            functools.partial(
                write_checkpoint,
                self._checkpoints,
                snapshot,
                keep=self.config.keep_checkpoints,
                best=self.journal.best_step(),
                good=self.watch.good_step,
            )
        )

    def _finish_writing(self) -> None:
        """Waits for the checkpoint that is being written; the next may make up for its failure."""
        failure = self.background.failure()
        if failure is None:
            self.failures = []
            return
        logger.warning("A checkpoint could not be written. %s", failure)
        self.failures.append(failure)

    def _facts(self, model: keras.Model) -> Facts:
        return facts_of(
            model,
            self.config,
            base_model=self.base_model,
            step=self.step,
            steps=self.steps,
            examples=self.examples_per_epoch,
            measured={
                "training": self.journal.find("train"),
                "held-out": self.journal.find("validation"),
            },
        )


def _first_plan(examples: Examples, name: str) -> Plan:
    """What the first epoch takes; of held-out text that is all.

    Raises:
        InputError: if the text is not enough.
    """
    try:
        plan = examples.plan(0)
    except InputError as error:
        raise InputError(f"The {name} text is not enough. {error}") from None
    if not len(plan):
        raise InputError(
            f"The {name} text is too short for an example; give more, or hold out another share "
            "(validation_share, 0 for none) or other files (validation)."
        )
    return plan


def make_optimizer(
    run: PretrainingConfig, variables: Mapping[str, tf.Variable], steps: int
) -> AdamW:
    """The optimizer of a run of so many steps."""
    warmup = run.warmup_steps if run.warmup_share is None else round(run.warmup_share * steps)
    if warmup >= steps:
        logger.warning(
            "The warm-up of %d steps takes the whole run of %d; give warmup_steps, too.",
            *(warmup, steps),
        )
    return OPTIMIZERS[run.optimizer](
        variables,
        DECAYS[run.decay](run.learning_rate, warmup, steps, run.final_learning_rate),
        weight_decay=run.weight_decay,
        betas=(run.beta_1, run.beta_2),
        epsilon=run.epsilon,
        loss_scale=LossScale() if run.precision == "mixed_float16" else None,
    )
