"""Pretraining from a configuration to a model."""

import contextlib
import logging
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_bert.atomic import locked
from keras_bert.distribution.strategy import check_batch, make_strategy
from keras_bert.distribution.workers import Workers
from keras_bert.extras import require_tensorflow_backend
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.data.data_service import fed_by
from keras_bert.pretraining.training.inputs import make_examples, make_preprocessor
from keras_bert.pretraining.training.interruption import stop_requests
from keras_bert.pretraining.training.run import Run
from keras_bert.pretraining.training.run_directory import check_directory

logger = logging.getLogger(__name__)


def pretrain(config: PretrainingConfig, progress: bool = True) -> dict[str, Any]:
    """Trains an encoder on text, or continues to.

    The run's directory decides: an empty or missing one starts a run, one of the same
    configuration continues from its last checkpoint. On CPUs the end is the same to the last
    bit, whether a run was interrupted or not. Ctrl-C and SIGTERM save a checkpoint first.

    Args:
        config: the run.
        progress: whether to show a progress bar on standard error.

    Returns:
        `finished` (false if interrupted), `step`, `steps`, `model` (its directory, when
        finished), `before` and `after` (held-out losses and accuracies, or None), `train` (the
        last losses and accuracies), `examples_per_epoch`, `best` (the checkpoint with the lowest
        held-out loss, or None), `chief` (whether this is the process that writes), `seconds` (this
        session's).

    Raises:
        InputError: if the text, the vocabulary, the options or the directory cannot be used,
            another run writes to the directory, or the loss diverges.
        StorageError: if a file cannot be written.
        WorkerLostError: if another worker or a data host has stopped.

    Example:
        >>> config = PretrainingConfig.from_yaml("pretrain.yaml", ["steps=1000"])
        >>> pretrain(config)["after"]["mlm_loss"]
    """
    require_tensorflow_backend("Pretraining")
    started = time.monotonic()
    strategy = make_strategy(config.strategy, config.cluster)
    workers = Workers(strategy)
    with locked(config.output) if workers.is_chief else contextlib.nullcontext():
        results = _pretrain(config, strategy, workers, progress)
    return {**results, "chief": workers.is_chief, "seconds": time.monotonic() - started}


def _pretrain(
    config: PretrainingConfig,
    strategy: tf.distribute.Strategy,
    workers: Workers,
    progress: bool,
) -> dict[str, Any]:
    if workers.is_chief:
        check_directory(Path(config.output), config)
    preprocessor = make_preprocessor(config)
    encoder_config = config.encoder_config(len(preprocessor.vocabulary))
    for name in ("first_batch_size", "batch_size"):
        if size := getattr(config, name):
            check_batch(strategy, size, config.accumulation, name)
    training, validation = make_examples(config, preprocessor)
    service = fed_by(config.data_service)
    with service, workers.together(), stop_requests() as stop_requested:
        run = Run(config, strategy, workers, training, validation, preprocessor, encoder_config)
        finished = run.train(lambda: workers.any(stop_requested()), progress and workers.is_chief)
    return {**run.results(), "finished": finished}
