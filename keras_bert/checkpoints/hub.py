"""Downloads checkpoints from the Hugging Face Hub with its client, huggingface_hub."""

import difflib
import logging
import os
import re
from pathlib import Path
from typing import Any

from keras_bert.errors import CheckpointError, InputError

_FILES = (
    "*.model",
    "*_Dense/config.json",
    "*_Dense/model.safetensors",
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
# If there are no safetensors. huggingface_hub would log a warning if no file matched.
_OF_TENSORFLOW = ("config.json", "tf_model*.h5", "tf_model.h5.index.json")
_NAME = re.compile(r"(?P<repository>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(@(?P<revision>\S+))?")
_PICKLE = re.compile(r"pytorch_model[\w-]*\.bin")
# The Space safetensors/convert opens pull requests as this user, with this title.
_BOT, _TITLE = "SFconvertbot", "Adding `safetensors` variant of this model"

logger = logging.getLogger(__name__)


def at_revision(name: str | os.PathLike, revision: str | None) -> str | os.PathLike:
    """Returns "NAME@REVISION". Without a revision, returns the unchanged name.

    Raises:
        InputError: if the name already has a revision, or the revision is empty or has spaces.
    """
    if revision is None:
        return name
    match = _NAME.fullmatch(f"{name}@{revision}")
    if match and match["revision"] == revision:
        return match[0]
    raise InputError(
        f"{name} with revision={revision!r} names no model on the hub; give a name such as "
        '"google-bert/bert-base-uncased" and a branch, a tag, a commit or "refs/pr/1".'
    )


def repository(name: str | os.PathLike) -> str:
    """Returns the name of a model on the hub without its revision."""
    return str(name).partition("@")[0]


def download(name: str | os.PathLike) -> Path:
    """Returns the directory of a model in the hub's cache. Downloads missing files first.

    If there is no network, or `HF_HUB_OFFLINE` is set, only the cache is used. The environment
    variables of huggingface_hub (`HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`, ...) and its login apply.

    If a repository has only a pickle, but an open pull request of the Space safetensors/convert
    has safetensors, the pull request's files are used, and a warning names its revision.

    Args:
        name: organization and model, for example "google-bert/bert-base-uncased". "@" and a
            revision may follow: a branch, a tag, a commit or "refs/pr/1". The default is "main".

    Raises:
        CheckpointError: if `name` does not have this form, the model is neither on the hub nor in
            the cache, or its weights are only in a pickle.
        InputError: if huggingface_hub is not installed.
    """
    near = _near(Path(name))
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        advice = f".{near}" if near else "; give the directory of a saved model."
        raise CheckpointError(f"{name} does not exist{advice}")
    try:
        from huggingface_hub import HfApi, snapshot_download
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        raise InputError(
            f"{name} does not exist here.{near} To get it from the Hugging Face Hub, run "
            'in a clone of keras_bert: pip install -e ".[hub]".'
        ) from error
    model, revision, place = match["repository"], match["revision"], None

    def fetch(revision: str | None, files: tuple[str, ...]) -> Path:
        return Path(snapshot_download(model, revision=revision, allow_patterns=list(files)))

    try:
        place = fetch(revision, _FILES)
        if not any(place.glob("model*.safetensors")):
            place = fetch(revision, _OF_TENSORFLOW)
            if not any(place.glob("tf_model*.h5")):
                converted = _converted(HfApi(), model, revision)
                place = place if converted is None else fetch(converted, _FILES)
        return place
    except CheckpointError:
        raise
    except (OSError, ValueError, *HfHubHTTPError.__bases__) as error:  # bases: of the HTTP client
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        reason = reason.removeprefix("Got: ")
        if place is not None:
            raise CheckpointError(
                f"{name} has no safetensors in the cache, and the Hugging Face Hub cannot be asked "
                f"for a conversion: {reason} If the cache has one, name its revision, such as "
                f"{model}@refs/pr/1."
            ) from error
        raise CheckpointError(
            f"{name} does not exist here.{near} It cannot be downloaded from the Hugging Face Hub: "
            f"{reason}"
        ) from error


def _converted(api: Any, model: str, revision: str | None) -> str | None:
    """Returns the revision with the safetensors of a repository that has only a pickle.

    Only a pull request of the Space's user counts, because everybody can open one. In a private
    repository, the Space acts as its owner. As in transformers, the pull request must follow the
    commit that is loaded.

    Returns:
        None if the repository has no pickle.

    Raises:
        CheckpointError: if there is no such pull request.
    """
    pickle = next(filter(_PICKLE.fullmatch, api.list_repo_files(model, revision=revision)), None)
    if pickle is None:
        return None
    commit, outdated = api.list_repo_commits(model, revision=revision)[0].commit_id, ""
    for each in api.get_repo_discussions(model):
        if not (each.is_pull_request and each.status == "open" and each.title == _TITLE):
            continue
        if each.author != _BOT and not api.model_info(model).private:
            continue
        commits = api.list_repo_commits(model, revision=each.git_reference)
        if commit in [other.commit_id for other in commits[1:2]]:
            logger.warning(
                "%s has only a pickle; the safetensors of its pull request %s are used.",
                model,
                each.git_reference,
            )
            return each.git_reference
        outdated = (
            f" The conversion {each.git_reference} is of another commit; if it will do, load "
            f"{model}@{each.git_reference}."
        )
    raise CheckpointError(
        f"{model} has its weights only in {pickle}, a pickle, which can run any code when it is "
        f"opened, so this package never opens it.{outdated} Convert it in the Space "
        "safetensors/convert or, if you trust it, with transformers: load it with its class and "
        'write it with save_pretrained("DIRECTORY", safe_serialization=True).'
    )


def _near(path: Path) -> str:
    """Returns ' Did you mean …?' if a part of the path resembles an existing name, else ''."""
    missing = next((p for p in (*reversed(path.parents), path) if not p.exists()), path)
    rest = path.relative_to(missing)
    names = [other.name for other in missing.parent.glob("*") if (other / rest).is_dir()]
    match = difflib.get_close_matches(missing.name, names, n=1)
    return f" Did you mean {str(missing.parent / match[0] / rest)!r}?" if match else ""
