"""Checkpoints from the Hugging Face Hub, through its own client and cache."""

import os
import re
from pathlib import Path

from keras_bert.errors import CheckpointError, InputError

_FILES = (
    "config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
)
_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_hub_id(path: str | os.PathLike) -> bool:
    """Whether this reads like the name of a model on the hub: organisation/model."""
    return isinstance(path, str) and _ID.fullmatch(path) is not None


def download(name: str) -> Path:
    """The directory of a model in the hub's cache, fetched if need be.

    Without a network, or where `HF_HUB_OFFLINE` is set, what is in the cache is used; the
    variables of huggingface_hub (`HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`, ...) apply.

    Raises:
        CheckpointError: if the model is neither on the hub nor in the cache.
        InputError: if huggingface_hub is not installed.
    """
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise InputError(
            f"{name} does not exist here; to get it from the Hugging Face Hub, install "
            "huggingface_hub: pip install 'keras-bert-encoders[hub]'."
        ) from error
    try:
        return Path(snapshot_download(name, allow_patterns=list(_FILES)))
    except (OSError, ValueError) as error:  # all of huggingface_hub's own are one of these
        reason = str(error).strip().splitlines()[0]
        raise CheckpointError(
            f"{name} does not exist here, and the Hugging Face Hub did not give it: {reason}"
        ) from error
