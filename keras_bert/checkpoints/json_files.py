"""JSON from files and to files."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_bert.errors import CheckpointError


def read_json(path: Path, kind: type = dict) -> Any:
    """The object, or the list, in a file.

    Raises:
        CheckpointError: if the file cannot be read or holds something else.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(f"Cannot read {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}.") from error
    if not isinstance(value, kind):
        expected = "object" if kind is dict else kind.__name__
        raise CheckpointError(f"{path} holds a {type(value).__name__}, not a JSON {expected}.")
    return value


def read_json_if_there(path: Path) -> dict[str, Any]:
    """The object in a file, an empty one where there is no file.

    Raises:
        CheckpointError: as `read_json`.
    """
    return read_json(path) if path.exists() else {}


def write_json(value: Mapping[str, Any] | Sequence[Any], path: Path) -> None:
    """Writes an object or a list, readable and in UTF-8."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
