"""Files that a save may replace: the files of an earlier save in the same format."""

import json
import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from keras_bert.atomic import Owned, not_ours
from keras_bert.errors import InputError

TEXT_FILES = (
    "merges.txt",
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.model",
    "vocab.json",
    "vocab.txt",
)
"""Names of the tokenizers' own files, of all kinds."""

# Each of these would change the model that the directory opens as, here or in another library.
_CONTRADICTING = (
    "keras_bert.json",
    "modules.json",
    "config.json",
    "*.index",
    "model.weights.*",
    "model_*.weights.h5",
    "adapter_config.json",
)
# These are passed over beside the weights that a save writes.
_OTHER_WEIGHTS = (
    "*.safetensors.index.json",
    "pytorch_model*.bin",
    "tf_model*.h5",
    "flax_model*.msgpack",
)
_OF_ANY_REPOSITORY = {"README.md", "LICENSE", "LICENSE.md", "LICENSE.txt"}

logger = logging.getLogger(__name__)


def earlier_save(marker: str, is_known: Callable[[Any], bool], files: Collection[str]) -> Owned:
    """Returns an `Owned` for the directories of a format.

    A new repository holds only hidden files, a card and a license. A model may be saved into it.

    Args:
        marker: name of the file that every save in the format writes.
        is_known: whether the content of the marker, read as JSON, belongs to the format.
        files: relative names of all files that a save in the format can write.
    """

    def owned(directory: Path) -> Collection[str]:
        _check_nothing_contradicts(directory, files)
        if not (directory / marker).exists():
            shown = {path.name for path in directory.iterdir() if path.name[0] != "."}
            if not shown <= _OF_ANY_REPOSITORY:
                raise not_ours(directory)
        elif not is_known(_content(directory / marker)):
            raise InputError(
                f"{directory / marker} describes no model, so the files beside it may not be "
                "replaced; choose another directory or remove this file first."
            )
        for name in _there(directory, _OTHER_WEIGHTS):
            logger.warning("%s stays, but does not hold the new weights.", directory / name)
        return files

    return owned


def _check_nothing_contradicts(directory: Path, files: Collection[str]) -> None:
    others = [name for name in _there(directory, _CONTRADICTING) if name not in files]
    if others:
        raise InputError(
            f"{directory} holds {', '.join(others)}, which would contradict the new model; "
            "choose another directory or remove these files first."
        )


def _there(directory: Path, patterns: Collection[str]) -> list[str]:
    return sorted({path.name for pattern in patterns for path in directory.glob(pattern)})


def _content(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
