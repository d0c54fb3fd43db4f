"""What a checkpoint holds, whatever its format, and the model that comes of it."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras

from keras_bert.checkpoints.mapping import Link, TensorSource, check_layers, read_model
from keras_bert.checkpoints.tasks import (
    LANGUAGE_MODELS,
    build_model,
    check_task,
    encoder_config,
    needs_pooler,
)
from keras_bert.errors import CheckpointError

logger = logging.getLogger(__name__)


class Contents(NamedTuple):
    """A checkpoint before any weight is read.

    Args:
        place: the directory or file, for messages.
        task: the name of the task that was saved.
        encoder: fields of the `EncoderConfig`, of which there may be defaults.
        arguments: of that task's constructor.
        preprocessor: a `Preprocessor`, or None.
        source: the tensors.
        table: the links from our names to those of the tensors, for one more layer than there is.
        fault: why that task cannot be built here, though others can; "" where it can.
        unless_asked: the task that is built where none is asked for, if not the saved one.
    """

    place: Path
    task: str
    encoder: dict[str, Any]
    arguments: dict[str, Any]
    preprocessor: Any
    source: TensorSource
    table: Sequence[Link]
    fault: str = ""
    unless_asked: str | None = None

    def build(self, task: str | None = None, **options: Any) -> keras.Model:
        """The model without weights: shapes and names only.

        Args:
            task: a key of `TASKS`; default: `unless_asked` or the saved one.
            **options: arguments of the constructor that replace the saved ones.

        Raises:
            CheckpointError: if the configuration is not valid or of another number of layers,
                or the saved task cannot be built here.
            InputError: if the task or an option is unknown.
        """
        check_task(task)
        task = task or self.unless_asked
        if self.fault and task in (None, self.task):
            raise CheckpointError(self.fault)
        arguments, encoder = self.arguments, self.encoder
        if task not in (None, self.task):
            keep = ("tied",) if {task, self.task} <= LANGUAGE_MODELS else ()
            arguments = {name: arguments[name] for name in keep if name in arguments}
            pooling = options.get("pooling")
            if pooling == "pooled" or (not pooling and needs_pooler(task, encoder.get("family"))):
                encoder = encoder | {"pooler": True}
        config = encoder_config(encoder, self.place)
        check_layers(self.table, self.source, config.num_distinct_layers)
        arguments = {"preprocessor": self.preprocessor} | arguments | options
        _check_vocabulary(
            arguments["preprocessor"],
            config.vocabulary_size,
            self.place,
            own="preprocessor" not in options,
        )
        return build_model(task or self.task, config, arguments, str(self.place))

    def load(self, task: str | None = None, **options: Any) -> keras.Model:
        """The model with its weights; arguments and errors as in `keras_bert.load`."""
        model = self.build(task, **options)
        another = (task or self.unless_asked) not in (None, self.task)
        read_model(model, self.table, self.source, another_task=another, chosen=task is not None)
        return model


def _check_vocabulary(preprocessor: Any, vocabulary_size: int, place: Path, own: bool) -> None:
    """There may be rows that no token has, but no token without a row.

    Of a preprocessor that is the checkpoint's own, the mask may have none: a text needs no mask.
    """
    if preprocessor is None:
        return
    vocabulary = preprocessor.vocabulary
    without_row = vocabulary.tokens[vocabulary_size:]
    if own and without_row == (vocabulary.mask,):
        logger.warning(
            "%s: the token embedding has no row for %s, so texts cannot have masks.",
            place,
            vocabulary.mask,
        )
    elif without_row:
        raise CheckpointError(
            f"{place}: the vocabulary has {len(vocabulary)} tokens, but the token embedding has "
            f"only {vocabulary_size} rows."
        )
