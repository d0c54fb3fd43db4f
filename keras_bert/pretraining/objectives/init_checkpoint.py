"""A model to start from, whoever wrote it."""

import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras

from keras_bert.checkpoints import open_checkpoint
from keras_bert.checkpoints.safetensors import SafetensorsFiles, assign_tensors
from keras_bert.checkpoints.variables import named_variables
from keras_bert.config import EncoderConfig

REST = "training.safetensors"
"""Of the checkpoints of a run: weights that are trained and are not the model's."""

logger = logging.getLogger(__name__)


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


def load_rest(model: keras.Model, path: str) -> None:
    """Sets what is trained beside the model, a generator, where the path is a run's checkpoint.

    Raises:
        CheckpointError: if it is of other sizes.
    """
    file = Path(path) / REST
    if not file.is_file():
        logger.warning("%s has no generator: it begins anew; checkpoints of a run have one.", path)
        return
    names = set(SafetensorsFiles({file: None}).names())
    variables = named_variables(model, model.trainable_variables)
    assign_tensors({name: v for name, v in variables.items() if name in names}, file)
