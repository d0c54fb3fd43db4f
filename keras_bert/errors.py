"""Errors that this package raises on purpose, and helpers for their messages."""

import difflib
import re
from collections.abc import Iterable

_WHERE_IN_A_GRAPH = re.compile(r"Graph execution error:|Detected at node|<stack traces|\s")
"""Matches the lines that come before the message in a TensorFlow error."""


class KerasBertError(Exception):
    """Base of all errors that this package raises on purpose."""


class InputError(KerasBertError, ValueError):
    """A value, file or option given by the user cannot be used."""


class UnreadableFileError(InputError):
    """A file of a corpus is missing, damaged, changed or not text, or its store fails."""


class CheckpointError(InputError):
    """A weights file, or the directory that contains it, cannot be used."""


class StorageError(KerasBertError):
    """A file cannot be written: the disk is full or read-only, or a permission is missing."""


class WorkerLostError(KerasBertError):
    """A worker or a data host is lost. If all workers and hosts start again, the run continues."""


def closest(name: str, names: Iterable[str]) -> str:
    """Returns " Did you mean ...?" with the most similar name, or "" if no name is similar."""
    match = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean {match[0]!r}?" if match else ""


def first_sentence(error: Exception) -> str:
    """Returns the first sentence of another library's error, without its period."""
    lines = str(error).strip().splitlines()
    said = next((line for line in lines if line and not _WHERE_IN_A_GRAPH.match(line)), "")
    return re.split(r"\.\s", said)[0].rstrip(".") or type(error).__name__
