"""Reader of files that are one JSON document."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

from keras_bert.errors import InputError

_GZIP_MAGIC = b"\x1f\x8b"


def read_document(path: str | os.PathLike) -> Any:
    """Reads the value in a JSON file, plain or gzip.

    Some data sets write a character beyond U+FFFF as two surrogates of three bytes each, which
    UTF-8 does not allow. Such a pair is read as one character.

    Raises:
        InputError: if the file cannot be read or is not JSON; the message names the line.
    """
    try:
        data = Path(path).read_bytes()
        data = gzip.decompress(data) if data.startswith(_GZIP_MAGIC) else data
        return json.loads(_decoded(data))
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{path}, line {line}: not UTF-8; convert the file to UTF-8.") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}, line {error.lineno}: this is not JSON: {error.msg}.") from None
    except (OSError, EOFError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path} cannot be read: {reason}.") from None


def _decoded(data: bytes) -> str:
    text = data.decode("utf-8-sig", "surrogatepass")
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:  # half of a pair, which json and the tokenizer can read
        return text
