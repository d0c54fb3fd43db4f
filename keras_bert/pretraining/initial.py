"""A model to start from, whoever wrote it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import keras

from keras_bert.checkpoints import open_checkpoint
from keras_bert.config import EncoderConfig


def load_initial(
    path: str,
    task: str,
    config: EncoderConfig,
    preprocessor: Any,
    dtype: Any,
    head: Mapping[str, Any] = MappingProxyType({}),
) -> keras.Model:
    """A checkpoint as the model of a task; a head that it lacks is new, which is logged.

    Args:
        path: of the checkpoint.
        task: as of `keras_bert.load`.
        config: of the encoder: the checkpoint's with changes that touch no weight, or the pooler.
        preprocessor: of the model.
        dtype: of the model.
        head: arguments of a new head.

    Raises:
        CheckpointError: if its weights do not fit the configuration.
    """
    contents = open_checkpoint(path)[1]._replace(encoder=config.to_dict())
    options = {} if contents.task == task else dict(head)
    return contents.load(task, preprocessor=preprocessor, dtype=dtype, **options)
