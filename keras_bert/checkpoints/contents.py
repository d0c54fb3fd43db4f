"""What a checkpoint holds, whatever its format, and the model that comes of it."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import keras

from keras_bert.checkpoints.mapping import Link, TensorSource, check_layers, read_model
from keras_bert.checkpoints.tasks import build_model, encoder_config, needs_pooler
from keras_bert.errors import CheckpointError
from keras_bert.tasks.registry import LANGUAGE_MODELS, check_task

logger = logging.getLogger(__name__)

GIVE_PREPROCESSOR = "give it one with load(..., preprocessor=...)"


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
        faults: why that task cannot be built, though others can, each under the option that
            replaces what is at fault; under "task" if no option does.
        unless_asked: the task that is built where none is asked for, if not the saved one.
    """

    place: Path
    task: str
    encoder: dict[str, Any]
    arguments: dict[str, Any]
    preprocessor: Any
    source: TensorSource
    table: Sequence[Link]
    faults: Mapping[str, str] = MappingProxyType({})
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
        faults = [fault for option, fault in self.faults.items() if option not in options]
        if faults and task in (None, self.task):
            raise CheckpointError(faults[0])
        arguments, encoder = self.arguments, self.encoder
        if task not in (None, self.task):
            keep = ("tied",) if {task, self.task} <= LANGUAGE_MODELS else ()
            arguments = {name: arguments[name] for name in keep if name in arguments}
            pooling = options.get("pooling")
            if pooling == "pooled" or (not pooling and needs_pooler(task, encoder.get("family"))):
                encoder = encoder | {"pooler": True}
        config = encoder_config(encoder, self.place)
        check_layers(self.table, self.source, config.num_distinct_layers)
        arguments = {"preprocessor": self.preprocessor} | arguments
        arguments["preprocessor"] = _usable(
            arguments["preprocessor"], config.vocabulary_size, self.place
        )
        arguments |= options
        if "preprocessor" in options:
            _check_vocabulary(options["preprocessor"], config.vocabulary_size, self.place)
        return build_model(task or self.task, config, arguments, str(self.place))

    def load(self, task: str | None = None, **options: Any) -> keras.Model:
        """The model with its weights; arguments and errors as in `keras_bert.load`."""
        model = self.build(task, **options)
        another = (task or self.unless_asked) not in (None, self.task)
        read_model(model, self.table, self.source, another_task=another, chosen=task is not None)
        return model


def _usable(preprocessor: Any, vocabulary_size: int, place: Path) -> Any:
    """Returns the checkpoint's own preprocessor, or None if the embedding lacks rows for it.

    The mask alone may have no row: a text needs no mask.
    """
    if preprocessor is None:
        return None
    vocabulary = preprocessor.vocabulary
    without_row = vocabulary.tokens[vocabulary_size:]
    if without_row == (vocabulary.mask,):
        logger.warning(
            "%s: the token embedding has no row for %s, so texts cannot have masks.",
            place,
            vocabulary.mask,
        )
    elif without_row:
        logger.warning(
            "%s: the vocabulary has %d tokens, but the token embedding has only %d rows. The model "
            "has no preprocessor; %s.",
            place,
            len(vocabulary),
            vocabulary_size,
            GIVE_PREPROCESSOR,
        )
        return None
    return preprocessor


def _check_vocabulary(preprocessor: Any, vocabulary_size: int, place: Path) -> None:
    """There may be rows that no token has, but no token without a row."""
    if preprocessor is not None and len(preprocessor.vocabulary) > vocabulary_size:
        raise CheckpointError(
            f"{place}: the vocabulary has {len(preprocessor.vocabulary)} tokens, but the token "
            f"embedding has only {vocabulary_size} rows."
        )
