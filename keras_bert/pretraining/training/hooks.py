"""Hooks that the trainer calls between two loops of steps, and the ramp of the batch size."""

import dataclasses
import functools
import logging
import math
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from tqdm import tqdm

from keras_bert.errors import InputError
from keras_bert.optimizers.distributed import AdamW
from keras_bert.pretraining.background import Background
from keras_bert.pretraining.data.input_pipeline import num_batches
from keras_bert.pretraining.objectives.registry import Objective
from keras_bert.pretraining.training.checkpoints import (
    Snapshot,
    checkpoint_paths,
    write_checkpoint,
)
from keras_bert.pretraining.training.run_log import RunLog
from keras_bert.pretraining.training.throughput import Throughput

logger = logging.getLogger(__name__)


class LoopResult(NamedTuple):
    """Result of one loop of training steps.

    Attributes:
        step: number of steps since the run began.
        epoch: epoch of the loop.
        steps: number of steps in the loop.
        batch_size: examples in a step, over all replicas.
        measures: losses and accuracies.
        gradient_norm: norm of the last step's gradient.
        tokens: number of tokens in the loop, without padding.
        seconds: duration of the loop.
        traced: whether TensorFlow had to trace the graph first, which takes extra time.
    """

    step: int
    epoch: int
    steps: int
    batch_size: int
    measures: Mapping[str, float]
    gradient_norm: float
    tokens: int
    seconds: float
    traced: bool


Hook: TypeAlias = Callable[[LoopResult], None]


@dataclasses.dataclass(eq=False)
class LogHook:
    """Writes a row to the run's log and moves the progress bar."""

    run_log: RunLog
    optimizer: AdamW
    throughput: Throughput
    bar: tqdm

    def __call__(self, result: LoopResult) -> None:
        """Logs the result of a loop."""
        speed = self.throughput.measures(
            steps=result.steps,
            batch_size=result.batch_size,
            tokens=result.tokens,
            seconds=result.seconds,
        )
        row = {
            "event": "train",
            "step": result.step,
            "epoch": result.epoch,
            **result.measures,
            "gradient_norm": result.gradient_norm,
            "learning_rate": float(self.optimizer.schedule(result.step - 1)),
            "batch_size": result.batch_size,
            **speed,
        }
        if self.optimizer.loss_scale is not None:
            row |= self.optimizer.loss_scale.measures
        self.run_log.write(row)
        advance(self.bar, result.steps, {**result.measures, **speed}, traced=result.traced)


@dataclasses.dataclass(eq=False)
class Evaluation:
    """Measures the held-out examples and logs the result.

    Args:
        evaluate: function that returns the sums of a batch: `TrainingStep.evaluate`.
        objective: objective, which names the measures.
        batches: function that makes the held-out batches. None if there is no held-out text.
        run_log: log of the run. A step that is in the log is not measured again.
    """

    evaluate: Callable[[Any], Any]
    objective: Objective
    batches: Callable[[], Iterable[Any]] | None
    run_log: RunLog

    def __call__(self, step: int) -> None:
        """Evaluates the current weights, after this number of steps."""
        if self.batches is None or self.run_log.find("validation", step):
            return
        total: Any = sum(map(self.evaluate, self.batches()))
        measures = self.objective.measures(total.numpy().tolist())
        measures |= self.objective.perplexities(measures)
        self.run_log.write({"event": "validation", "step": step, **measures})


MEDIAN_LOOPS = 10
"""Number of loops of steps whose median loss is compared."""


class LossWatch:
    """Watches the loss of a run for divergence.

    The loss diverges if its median over the last `MEDIAN_LOOPS` loops of steps is more than twice
    the lowest median so far, and more than half of the first loss. So a single bad batch does not
    end a run. But a run that has lost most of its progress ends, long before its loss is NaN or
    infinite.

    Args:
        rows: rows of the log of a run that continues.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self.good_step = 0
        self._first = math.inf
        self._lowest = math.inf
        self._recent: deque[float] = deque(maxlen=MEDIAN_LOOPS)
        for row in rows:
            if row["event"] == "train":
                self.trouble(row["step"], {"loss": row["loss"]})

    def trouble(self, step: int, numbers: Mapping[str, float]) -> str:
        """Returns a description of the problem at a step, or "" without a problem.

        After the call, the attribute `good_step` is the last step whose loss was within the limit.

        Args:
            step: step of the numbers.
            numbers: "loss", and other numbers that must be finite.
        """
        loss = numbers["loss"]
        if not all(map(math.isfinite, numbers.values())):
            return f"The loss is no longer finite at step {step}"
        if math.isinf(self._first):
            self._first = loss
        self._recent.append(loss)
        limit = max(2 * self._lowest, self._first / 2)
        if loss <= limit:
            self.good_step = step
        if len(self._recent) == MEDIAN_LOOPS:
            median = statistics.median(self._recent)
            if median > limit:
                return (
                    f"The loss diverges: its median is {median:.3g} at step {step} and was "
                    f"{self._lowest:.3g}"
                )
            self._lowest = min(self._lowest, median)
        return ""


@dataclasses.dataclass(eq=False, kw_only=True)
class CheckpointWriter:
    """Writes checkpoints in the background.

    Args:
        directory: directory of all checkpoints of the run.
        background: thread that writes.
        run_log: log with the best step.
        watch: watch on the loss, which knows the last good step.
        keep: number of checkpoints to keep.
        saved: step of the checkpoint that the run continues from.
        snapshot: function that copies the state of the run. None in a process that does not write.
    """

    directory: Path
    background: Background
    run_log: RunLog
    watch: LossWatch
    keep: int
    saved: int
    snapshot: Callable[[], Snapshot] | None

    def __post_init__(self) -> None:
        self._failures: list[BaseException] = []  # errors of writes since the last successful write

    def save(self, step: int) -> None:
        """Starts to write a checkpoint, unless one of this step exists."""
        if self.snapshot is None or self.saved == step:
            return
        self.saved = step
        self.run_log.flush()
        self._finish_writing()  # so that only one copy is in memory
        self.background.start(
            functools.partial(
                write_checkpoint,
                self.directory,
                self.snapshot(),
                keep=self.keep,
                best=self.run_log.best_step(),
                good=self.watch.good_step,
            )
        )

    def retry(self, result: LoopResult) -> None:
        """Writes again if the last write failed. Raises the error if two writes in a row failed."""
        if self.saved != result.step and self.background.has_failed():
            self.save(result.step)
        if len(self._failures) > 1:
            raise self._failures[-1]

    def check_losses(self, result: LoopResult) -> None:
        """Ends a run if its loss diverges.

        Raises:
            InputError: if the loss diverges; the message names the last good checkpoint.
        """
        numbers = {**result.measures, "gradient_norm": result.gradient_norm}
        if trouble := self.watch.trouble(result.step, numbers):
            self._finish_writing()
            good = checkpoint_paths(self.directory, self.watch.good_step)
            raise InputError(
                f"{trouble}. The last good checkpoint is {good[-1] if good else 'none'}. Start "
                f"another run with {'it as model.init_checkpoint and ' if good else ''}"
                "a lower optimizer.learning_rate."
            )

    def _finish_writing(self) -> None:
        """Waits until the checkpoint is written. Logs a failure."""
        failure = self.background.failure()
        if failure is None:
            self._failures = []
            return
        logger.warning("A checkpoint could not be written. %s", failure)
        self._failures.append(failure)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchRamp:
    """A batch size that is doubled at equal intervals until it is full.

    With any batch size, a step is one update of the weights. Doubling needs only a few batch sizes,
    and so only a few graphs.

    Args:
        first: batch size of the first step.
        full: full batch size, `first` times a power of two.
        steps: number of steps until the batch is full; 0 for a batch that does not grow.
    """

    first: int
    full: int
    steps: int = 0

    @functools.cached_property
    def begins(self) -> dict[int, int]:
        """Batch sizes in order. The key of a batch size is the first step with this size."""
        doublings = (self.full // self.first).bit_length() - 1
        return {
            -(-self.steps * n // max(doublings, 1)): self.first << n for n in range(doublings + 1)
        }

    def at(self, step: int) -> int:
        """Returns the batch size of a step."""
        return max(size for begin, size in self.begins.items() if begin <= step)

    def until_change(self, step: int) -> int:
        """Returns the number of steps until the batch size grows, or `sys.maxsize`."""
        return min((begin - step for begin in self.begins if begin > step), default=sys.maxsize)

    def steps_for(self, epochs: float, examples: int) -> int:
        """Returns the number of steps for these epochs. An epoch's last batch counts as full."""
        step = 0
        while epochs > 0 and step < self.steps:
            step += self._steps_from(step, math.ceil(min(epochs, 1) * examples))
            epochs -= 1
        return max(1, round(step + max(epochs, 0) * num_batches(examples, self.full)))

    def _steps_from(self, begin: int, examples: int) -> int:
        step = begin
        while examples > 0:
            size = self.at(step)
            count = min(self.until_change(step), num_batches(examples, size))
            step, examples = step + count, examples - count * size
        return step - begin


_SPEED = {
    "tokens_per_second": ("tokens/s", "{:.0f}"),
    "padding": ("padding", "{:.1%}"),
    "mfu": ("MFU", "{:.1%}"),
}


def advance(bar: tqdm, steps: int, numbers: Mapping[str, float], *, traced: bool) -> None:
    """Advances the bar and updates the remaining time.

    Args:
        bar: bar of `keras_bert.progress.make_bar`.
        steps: number of steps done since the last call.
        numbers: losses, accuracies and measures of `Throughput`.
        traced: whether TensorFlow had to trace the graph first. Then the duration of the steps does
            not count for the remaining time.
    """
    if bar.disable:
        return
    written = {name: _SPEED.get(name, (name, "{:.3f}")) for name in numbers if name != "loss"}
    bar.set_postfix(
        {called: form.format(numbers[name]) for name, (called, form) in written.items()},
        refresh=False,
    )
    if not traced:
        bar.update(steps)
        return
    bar.n += steps
    bar.last_print_n, bar.last_print_t = bar.n, time.time()  # start of the next measurement
    began, bar.initial = bar.initial, bar.n  # so that the bar shows no speed yet
    bar.refresh()
    bar.initial = began
