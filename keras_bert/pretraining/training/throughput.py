"""Tokens per second and model FLOPs utilization (MFU) of a run.

Only matrix products count: a product of `[m, k]` and `[k, n]` has 2mkn operations. By XLA's count
for a TPU, elementwise operations add 2 % at the width of BERT base. The backward pass has two
products for each product of the forward pass, so a step has three times as many operations as the
forward pass. A frozen teacher has only a forward pass.
"""

from __future__ import annotations

import os
import re
import urllib.request
from typing import TYPE_CHECKING, Any

import keras

from keras_bert.config import EncoderConfig
from keras_bert.pretraining.objectives.distillation import DistillationModel
from keras_bert.pretraining.objectives.replaced_tokens import ReplacedTokenModel
from keras_bert.tasks.masked_lm import MaskedLanguageModel
from keras_bert.tasks.pretraining import PretrainingModel

if TYPE_CHECKING:
    import tensorflow as tf


class Throughput:
    """Computes speed, padding and MFU for the log and the progress bar.

    Args:
        model: model that `Objective.model` makes.
        strategy: strategy of the training.
        length: number of tokens in a sequence.
        max_predictions_per_seq: largest number of predictions in a sequence.
        peak: peak speed of a replica's device in TFLOP/s. By default, `peak_teraflops` finds it.
    """

    def __init__(
        self,
        model: keras.Model,
        strategy: tf.distribute.Strategy,
        *,
        length: int,
        max_predictions_per_seq: int,
        peak: float | None = None,
    ):
        self._model = model
        self._length = length
        self._max_predictions = max_predictions_per_seq
        replica = peak or peak_teraflops(strategy)
        self._peak = replica and replica * strategy.num_replicas_in_sync * 1e12

    def measures(
        self, *, steps: int, batch_size: int, tokens: int, seconds: float
    ) -> dict[str, float]:
        """Returns `tokens_per_second`, the ratio of `padding` and, if the peak is known, `mfu`.

        Args:
            steps: number of steps.
            batch_size: number of examples per step, over all replicas.
            tokens: number of tokens in all batches, without padding and rows that fill up a batch.
            seconds: duration of the steps.
        """
        computed = steps * batch_size * self._length
        measures = {"tokens_per_second": tokens / seconds, "padding": 1 - tokens / computed}
        if self._peak:
            flops = steps * training_flops(
                self._model, batch_size, self._length, self._max_predictions
            )
            measures["mfu"] = flops / seconds / self._peak
        return measures


def training_flops(
    model: keras.Model, batch_size: int, length: int, max_predictions_per_seq: int
) -> int:
    """Returns the number of floating-point operations in a training step, for any objective.

    Args:
        model: model that `Objective.model` makes.
        batch_size: number of examples in a batch.
        length: number of tokens in a sequence. Padding counts, because it is computed, too.
        max_predictions_per_seq: number of predictions in a sequence. Unused predictions count, too.
    """
    return _STEPS[type(model)](model, batch_size, length, max_predictions_per_seq)


def encoder_flops(config: EncoderConfig, batch_size: int, length: int, layers: int = 0) -> int:
    """Returns the number of operations in an encoder's forward pass. 0 `layers` means all."""
    tokens, size, width = batch_size * length, config.hidden_size, config.embedding_size
    feed_forward = (2 + config.gated) * size * config.intermediate_size
    shared = config.num_key_value_heads / config.num_heads  # of keys and values
    layer = 2 * tokens * (round((2 + 2 * shared) * size**2) + feed_forward)
    for _ in config.position_terms if config.relative_positions else ():
        # A projection of 2T relative positions, and its product with queries or keys.
        layer += 2 * (2 * length) * size**2 + 2 * tokens * (2 * length) * size
    segments = config.num_segments if config.num_segments > 1 else 0
    factors = size * width if width != size else 0
    others = segments * width + factors + config.convolution_size * size**2
    layers = layers or config.num_layers
    # Products of queries and keys, and of probabilities and values. In a layer with a window, a
    # token's products cover three blocks of the window's size (`layers/sliding_window.py`).
    seen = sum(
        min(length, 3 * config.attention_window) if config.has_window(index) else length
        for index in range(layers)
    )
    return layers * layer + 4 * tokens * seen * size + 2 * tokens * others


def _masked_lm(
    model: MaskedLanguageModel, batch: int, length: int, max_predictions_per_seq: int
) -> int:
    # The enhanced decoder applies the last layer twice instead of once.
    layers = model.config.num_layers + model.enhanced
    encoder = encoder_flops(model.config, batch, length, layers)
    return encoder + _masked_lm_head(model.config, batch, length, max_predictions_per_seq)


def _masked_lm_head(
    config: EncoderConfig, batch: int, length: int, max_predictions_per_seq: int
) -> int:
    size, width = config.hidden_size, config.embedding_size
    picked = (
        length * size if max_predictions_per_seq < length else 0
    )  # product with a one-hot matrix
    transform = config.masked_lm_transform * size * width
    prediction = picked + transform + width * config.vocabulary_size
    return 2 * batch * max_predictions_per_seq * prediction


def _of_pretraining(
    model: PretrainingModel, batch: int, length: int, max_predictions_per_seq: int
) -> int:
    config = model.config
    head = _masked_lm_head(config, batch, length, max_predictions_per_seq)
    next_sentence = 2 * batch * (config.hidden_size**2 + 2 * config.hidden_size)
    return 3 * (encoder_flops(config, batch, length) + head + next_sentence)


def _of_replaced_token(
    model: ReplacedTokenModel, batch: int, length: int, max_predictions_per_seq: int
) -> int:
    size = model.config.hidden_size
    detector = encoder_flops(model.config, batch, length) + 2 * batch * length * (size**2 + size)
    return 3 * (_masked_lm(model.generator, batch, length, max_predictions_per_seq) + detector)


def _of_distillation(
    model: DistillationModel, batch: int, length: int, max_predictions_per_seq: int
) -> int:
    wanted = length if model.every_token else max_predictions_per_seq
    trained, frozen = (_masked_lm(m, batch, length, wanted) for m in (model.student, model.teacher))
    if model.every_token:  # the logits of masked tokens are computed again
        trained += _masked_lm_head(model.student.config, batch, length, max_predictions_per_seq)
    return 3 * trained + frozen


_STEPS: dict[type, Any] = {
    MaskedLanguageModel: lambda model, *sizes: 3 * _masked_lm(model, *sizes),
    PretrainingModel: _of_pretraining,
    ReplacedTokenModel: _of_replaced_token,
    DistillationModel: _of_distillation,
}


# TFLOP/s of dense matrix products in bfloat16, by words in the name of a GPU. The first row that
# matches counts. Most of NVIDIA's data sheets give the value for sparse matrices, which is twice as
# high. V100 and T4 have only float16. Google's values are from https://cloud.google.com/tpu/docs.
_GPUS = {
    ("H200", "NVL"): 835,
    ("H200",): 989,
    ("H100", "PCIe"): 756,
    ("H100", "NVL"): 835,
    ("H100",): 989,
    ("A100",): 312,
    ("L4",): 121,
    ("T4",): 65,
    ("V100", "PCIE"): 112,
    ("V100",): 125,
}
# TFLOP/s of a core or a chip, depending on the number in the type's name: "v4-8" has 8 cores on 4
# chips, "v6e-8" has 8 chips.
_TPUS = {
    "v2": 45 / 2,
    "v3": 123 / 2,
    "v4": 275 / 2,
    "v5p": 459 / 2,
    "v5litepod": 197,
    "v6e": 918,
}
_TPU_TYPE = (
    "http://metadata.google.internal/computeMetadata/v1/instance/attributes/accelerator-type"
)


def peak_teraflops(strategy: tf.distribute.Strategy) -> float | None:
    """Returns the peak speed of a replica in TFLOP/s, or None if the tables lack its device."""
    import tensorflow as tf  # peak_of_gpu also serves the JAX backend

    if isinstance(strategy, tf.distribute.TPUStrategy):
        peak = peak_of_tpu(_tpu_type())
        return peak and peak / strategy.num_replicas_in_sync
    gpus = tf.config.get_visible_devices("GPU")
    if not gpus:
        return None
    return peak_of_gpu(tf.config.experimental.get_device_details(gpus[0]).get("device_name", ""))


def peak_of_gpu(name: str) -> float | None:
    """Returns the peak speed of a GPU by its name, such as "NVIDIA H100 80GB HBM3"."""
    words = set(re.findall(r"\w+", name))
    if "MIG" in words:  # a part of a GPU
        return None
    return next((peak for key, peak in _GPUS.items() if words.issuperset(key)), None)


def peak_of_tpu(kind: str) -> float | None:
    """Returns the peak speed of a whole TPU slice by its type, such as "v5litepod-8"."""
    generation, _, number = kind.partition("-")
    return _TPUS[generation] * int(number) if generation in _TPUS and number.isdigit() else None


def _tpu_type() -> str:
    """Returns the TPU's type from Kubernetes Engine or the VM's metadata server, or ""."""
    if "TPU_ACCELERATOR_TYPE" in os.environ:
        return os.environ["TPU_ACCELERATOR_TYPE"]
    request = urllib.request.Request(_TPU_TYPE, headers={"Metadata-Flavor": "Google"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read().decode()
    except OSError:
        return ""
