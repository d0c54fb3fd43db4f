"""Outputs appear under their final name complete or not at all."""

import contextlib
import glob
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from keras_bert.errors import InputError


@contextlib.contextmanager
def replacing(target: str | os.PathLike, *, marker: str | None = None) -> Iterator[Path]:
    """A temporary path beside `target`, renamed to it if the block ends without an exception.

    The block makes a file or a directory at the path. If it fails, what it made is deleted and
    an earlier `target` stays as it was.

    Args:
        target: the final path; missing parents are made.
        marker: name of a file by which a directory is known to be ours; an existing directory
            that is neither empty nor has the marker is not replaced.

    Raises:
        InputError: if `target` exists and may not be replaced, is the address of a bucket, or the
            disk refuses.
    """
    target = Path(target)
    check_local(target)
    _check_replaceable(target, marker)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise InputError(f"Cannot write {target}: {error.strerror}.") from error
    try:
        yield scratch / "new"
        if target.is_dir():
            os.rename(target, scratch / "old")
        os.replace(scratch / "new", target)
    except OSError as error:
        if (scratch / "old").exists() and not target.exists():
            os.rename(scratch / "old", target)
        reason = error.strerror or error
        raise InputError(f"Cannot write {target}: {reason}. Nothing was changed.") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def flush(path: Path) -> None:
    """Brings a file, or what a directory lists, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_scratch(target: str | os.PathLike) -> None:
    """Removes what `replacing(target)` has left where it was killed."""
    target = Path(target)
    for scratch in target.parent.glob(f".{glob.escape(target.name)}.????????"):
        shutil.rmtree(scratch, ignore_errors=True)


def check_local(target: str | os.PathLike) -> None:
    """Refuses an address such as "gs://bucket/run", which would make a directory named "gs:".

    Raises:
        InputError: for one.
    """
    if re.match(r"[A-Za-z][\w+.-]+:/", str(target)):
        raise InputError(
            f"{target} is an address, but what is written goes to a directory of this machine or a "
            "bucket that is mounted as one; name such a directory, and copy it from there."
        )


def _check_replaceable(target: Path, marker: str | None) -> None:
    if target.is_dir() and any(target.iterdir()):
        if marker is None or not (target / marker).exists():
            raise InputError(
                f"{target} is not empty and was not written by keras-bert; "
                "choose another directory or remove it first."
            )
    elif marker is not None and target.is_file():
        raise InputError(f"{target} is a file, but a directory is to be written; choose another.")
