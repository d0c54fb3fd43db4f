"""What some steps of a run have done in their time."""

import keras
import tensorflow as tf

from keras_bert.pretraining.training.device_flops import peak_teraflops
from keras_bert.pretraining.training.flops import training_flops


class Throughput:
    """Numbers for the log and the progress bar.

    Args:
        model: as `Objective.model` makes it.
        strategy: where it is trained.
        length: T.
        slots: P.
        peak: TFLOP/s of a replica's device at most; None means what `peaks` knows of it.
    """

    def __init__(
        self,
        model: keras.Model,
        strategy: tf.distribute.Strategy,
        *,
        length: int,
        slots: int,
        peak: float | None = None,
    ):
        self._model = model
        self._length = length
        self._slots = slots
        replica = peak or peak_teraflops(strategy)
        self._peak = replica and replica * strategy.num_replicas_in_sync * 1e12

    def measures(
        self, *, steps: int, batch_size: int, tokens: int, seconds: float
    ) -> dict[str, float]:
        """`tokens_per_second`, share of `padding` and, where the peak is known, `utilisation`.

        Args:
            steps: number of them.
            batch_size: over all replicas.
            tokens: in all batches together, without padding and rows that fill up a batch.
            seconds: that it took.
        """
        computed = steps * batch_size * self._length
        measures = {"tokens_per_second": tokens / seconds, "padding": 1 - tokens / computed}
        if self._peak:
            flops = steps * training_flops(self._model, batch_size, self._length, self._slots)
            measures["utilisation"] = flops / seconds / self._peak
        return measures
