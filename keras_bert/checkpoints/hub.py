"""Downloads checkpoints from the Hugging Face Hub with its client, huggingface_hub."""

import difflib
import os
import re
from pathlib import Path

from keras_bert.errors import CheckpointError, InputError

_FILES = (
    "*.model",
    "*_Pooling/config.json",
    "README.md",
    "adapter_config.json",
    "added_tokens.json",
    "config.json",
    "config_sentence_transformers.json",
    "merges.txt",
    "model*.safetensors",
    "model.safetensors.index.json",
    "modules.json",
    "sentence_*_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
)
_OF_TENSORFLOW = ("tf_model*.h5", "tf_model.h5.index.json")  # if there are no safetensors
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def download(name: str | os.PathLike) -> Path:
    """Returns the directory of a model in the hub's cache. Downloads missing files first.

    If there is no network, or `HF_HUB_OFFLINE` is set, only the cache is used. The environment
    variables of huggingface_hub (`HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`, ...) apply.

    Args:
        name: organization and model, for example "google-bert/bert-base-uncased".

    Raises:
        CheckpointError: if `name` does not have this form, or the model is neither on the hub nor
            in the cache.
        InputError: if huggingface_hub is not installed.
    """
    near = _near(Path(name))
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        advice = f".{near}" if near else "; give the directory of a saved model."
        raise CheckpointError(f"{name} does not exist{advice}")
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise InputError(
            f"{name} does not exist here.{near} To get it from the Hugging Face Hub, run "
            'in a clone of keras_bert: pip install -e ".[hub]".'
        ) from error
    try:
        directory = Path(snapshot_download(name, allow_patterns=list(_FILES)))
        if not any(directory.glob("model*.safetensors")):
            snapshot_download(name, allow_patterns=list(_OF_TENSORFLOW))
        return directory
    except (OSError, ValueError) as error:  # all errors of huggingface_hub are one of these
        reason = str(error).strip().splitlines()[0].removeprefix("Got: ")
        raise CheckpointError(
            f"{name} does not exist here.{near} It cannot be downloaded from the Hugging Face Hub: "
            f"{reason}"
        ) from error


def _near(path: Path) -> str:
    """Returns ' Did you mean …?' if a part of the path resembles an existing name, else ''."""
    missing = next((p for p in (*reversed(path.parents), path) if not p.exists()), path)
    rest = path.relative_to(missing)
    names = [other.name for other in missing.parent.glob("*") if (other / rest).is_dir()]
    match = difflib.get_close_matches(missing.name, names, n=1)
    return f" Did you mean {str(missing.parent / match[0] / rest)!r}?" if match else ""
