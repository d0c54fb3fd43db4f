"""Atomic writes: an output appears under its final name complete, or not at all.

A file or a new directory is written under a temporary name beside its final name, and then renamed.
An existing directory may also hold files of other programs, so its files are replaced one by one:

1. The new files are written to `.keras_bert-new-NAME-XXXXXXXX/new` inside the directory. The empty
   files in `stale`, beside `new`, name the files to delete.
2. `.keras_bert-new-NAME-XXXXXXXX` is renamed to `.keras_bert-saved`. This commits the save.
3. Each new file is renamed into its place, the stale files are deleted, and `.keras_bert-saved` is
   removed.

If a process is killed before step 2, the earlier files are unchanged. If it is killed in step 3,
the next reader or writer calls `finish_interrupted`, which completes step 3. A process holds a lock
(flock) on its temporary directory, the scratch directory. A scratch directory without a lock was
left by a killed process, and is removed.
"""

import contextlib
import errno
import fcntl
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TypeAlias

from keras_bert.errors import InputError, StorageError

logger = logging.getLogger(__name__)

SAVED = ".keras_bert-saved"
_SCRATCH = ".keras_bert-new-"

Owned: TypeAlias = Callable[[Path], Collection[str]]
"""Function that returns the names of the files in a directory that may be replaced.

It raises `InputError` if the directory may not be replaced.
"""


@contextlib.contextmanager
def replacing(target: str | os.PathLike, *, owned: Owned | None = None) -> Iterator[Path]:
    """Yields a temporary path. The block writes a file or directory there; it becomes `target`.

    If the block fails, the temporary path is deleted and an earlier `target` stays as it was. If
    `target` is a directory, its other files stay where they are.

    Args:
        target: the final path; missing parents are made.
        owned: called with `target` if it is a directory that is not empty. Returns the relative
            names of all files that may be replaced, or deleted if they are not written again.
            None refuses such a directory.

    Raises:
        InputError: if `target` exists and may not be replaced, or is the address of a bucket.
        StorageError: if a file cannot be written.
    """
    check_local(target)
    place = Path(target).resolve() if Path(target).is_dir() else Path(target)
    if owned is not None and place.is_file():
        raise InputError(f"{target} is a file, but a directory is to be written; choose another.")
    committed = False
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        remove_scratch(place)
        names = _replaceable(Path(target), owned)
        with _scratch(place.parent if names is None else place, place.name) as scratch:
            yield scratch / "new"
            if names is None:
                os.replace(scratch / "new", place)
            else:
                _prepare(scratch, place, names)
                _commit(scratch, place)
                committed = True
    except OSError as error:
        if committed:
            raise _unfinished(Path(target), error) from error
        reason = error.strerror or error
        raise StorageError(f"Cannot write {target}: {reason}. Nothing was changed.") from error


def replace_file(target: str | os.PathLike, content: str | bytes) -> None:
    """Writes a file with `replacing`. Text is encoded as UTF-8."""
    with replacing(target) as new:
        new.write_bytes(content.encode() if isinstance(content, str) else content)


def finish_interrupted(directory: str | os.PathLike) -> None:
    """Finishes a save that a killed process began in a directory, if there is one.

    Readers call this function before they open files of the directory. If another process is moving
    files into place, the function waits until that process is done. A later save does not change
    files that a reader has opened, because it renames new files over them. The reader recognizes a
    later save by `SAVED` in the directory, and by new inodes.

    Raises:
        StorageError: if a file cannot be written.
    """
    directory = Path(directory)
    try:
        lock = os.open(directory / SAVED, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:  # a save may be committed right after this check
        return
    except OSError as error:
        if not os.path.lexists(directory / SAVED):
            return
        raise _unfinished(directory, error) from error
    try:
        _wait_for_lock(lock)
        if _is_at(lock, directory / SAVED):
            _put_in_place(directory, _scratch_path(directory, SAVED))
            logger.warning("%s: finished a save that had been interrupted.", directory)
    except OSError as error:
        raise _unfinished(directory, error) from error
    finally:
        _unlock(lock)


def remove_scratch(target: str | os.PathLike) -> None:
    """Removes the scratch directories of killed processes beside `target` and inside it."""
    target = Path(target)
    for folder in (target.parent, target):
        for path in folder.glob(f"{_SCRATCH}*"):
            with contextlib.suppress(OSError):
                lock = os.open(path, os.O_RDONLY)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if its process lives
                    shutil.rmtree(path, ignore_errors=True)
                finally:
                    _unlock(lock)


def discard(directory: Path) -> None:
    """Removes a directory, if it exists, in one step, so that no reader sees half of it."""
    if directory.exists():
        with _scratch(directory.parent, directory.name) as scratch:
            os.rename(directory, scratch / "old")


def written_with(marker: str, *others: str) -> Owned:
    """Returns an `Owned` that refuses a directory without the file `marker`.

    Args:
        marker: relative name of a file that every earlier save has.
        others: relative names of the other files that may be replaced.
    """

    def owned(directory: Path) -> Collection[str]:
        if not (directory / marker).exists():
            raise not_ours(directory)
        return (marker, *others)

    return owned


def not_ours(directory: Path) -> InputError:
    """Returns the error for a directory that may not be replaced."""
    return InputError(
        f"{directory} is not empty and was not written by keras-bert; "
        "choose another directory or remove it first."
    )


@contextlib.contextmanager
def locked(directory: str | os.PathLike) -> Iterator[None]:
    """Locks a directory, so that no other process enters this block. Makes a missing directory.

    The lock is on the directory itself, so there is no lock file, and the lock ends with its
    process. If the directory is new and the block leaves it empty, the directory is removed.

    Raises:
        InputError: if another process holds the lock, or the path is a file or the address of a
            bucket.
        StorageError: if the directory cannot be made or opened.
    """
    check_local(directory)
    directory = Path(directory)
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{directory} is a file; name a directory for the run.")
    is_new = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise StorageError(f"Cannot write {directory}: {error.strerror}.") from error
    try:
        _lock(descriptor, directory)
        yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it is not empty
                directory.rmdir()
        _unlock(descriptor)


def flush(path: Path) -> None:
    """Flushes a file, or a directory's list of files, to the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_local(target: str | os.PathLike) -> None:
    """Refuses an address such as "gs://bucket/run", which would make a directory named "gs:".

    Raises:
        InputError: if `target` is such an address.
    """
    if re.match(r"[A-Za-z][\w+.-]+:/", str(target)):
        raise InputError(
            f"{target} is an address, but files can only be written to a directory of this machine "
            "or to a bucket that is mounted as a directory; name a directory, and copy it from "
            "there."
        )


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise InputError(
            f"Another run is writing to {directory}; wait for its end or choose another output."
        ) from error
    except OSError as error:  # some network file systems have no locks
        logger.warning(
            "%s cannot be locked (%s), so start no second run there.", directory, error.strerror
        )


def _replaceable(target: Path, owned: Owned | None) -> Collection[str] | None:
    """Returns the names that may be replaced in a directory, or None if a rename is enough."""
    if not target.is_dir():
        return None
    finish_interrupted(target)
    if not any(target.iterdir()):
        return None if owned is None else ()
    if owned is None:
        raise not_ours(target)
    return owned(target)


@contextlib.contextmanager
def _scratch(home: Path, name: str) -> Iterator[Path]:
    """Yields a new, locked directory. If the block commits it, its files are moved into place."""
    path, lock = _make_scratch(home, name)
    try:
        yield path
    finally:
        try:
            if _is_at(lock, home / SAVED):
                _put_in_place(home, path)
            else:
                shutil.rmtree(path, ignore_errors=True)
        finally:
            _unlock(lock)


def _make_scratch(home: Path, name: str) -> tuple[Path, int]:
    while True:
        path = _scratch_path(home, name)
        path.mkdir()
        with contextlib.suppress(FileNotFoundError):  # removed as scratch before it was locked
            lock = os.open(path, os.O_RDONLY)
            _wait_for_lock(lock)
            if _is_at(lock, path):
                return path, lock
            os.close(lock)


def _scratch_path(home: Path, name: str) -> Path:
    return home / f"{_SCRATCH}{name[:50]}-{secrets.token_hex(4)}"  # the name tells users what it is


def _wait_for_lock(descriptor: int) -> None:
    """Waits for the lock. If the file system has no locks, continues without a lock."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _unlock(descriptor: int) -> None:
    """Releases the lock on a directory, also in forked children, and closes the directory."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _prepare(scratch: Path, place: Path, names: Collection[str]) -> None:
    """Checks that new files may take their places, lists stale files, and flushes all to disk.

    Raises:
        InputError: if a file or directory that this package did not write has the name of a new
            one.
    """
    new, stale = scratch / "new", scratch / "stale"
    for path in sorted(new.rglob("*")):
        name = path.relative_to(new).as_posix()
        there = place / name
        if not os.path.lexists(there):
            continue
        is_folder = there.is_dir() and not there.is_symlink()
        if path.is_dir() != is_folder or not (is_folder or name in names):
            raise InputError(
                f"{there} was not written by keras-bert, but a new file has the same name; choose "
                "another directory or move it."
            )
        if is_folder and not os.access(there, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(there))
    for name in names:
        there = place / name  # another save may write it before this save is committed
        is_link = there.parent.resolve() != there.parent
        if not (new / name).exists() and not there.is_dir() and not is_link:
            (stale / name).parent.mkdir(parents=True, exist_ok=True)
            (stale / name).touch()
    for path in (*new.rglob("*"), new, scratch):
        flush(path)


def _commit(scratch: Path, place: Path) -> None:
    while True:
        try:
            os.rename(scratch, place / SAVED)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            finish_interrupted(place)  # another save is still moving its files
        else:
            return


def _put_in_place(directory: Path, done: Path) -> None:
    """Moves the files of a committed save. Ctrl-C interrupts only after all files are moved.

    Args:
        directory: the directory that holds `SAVED`.
        done: new name of `SAVED` when its files are moved; it is removed under this name.
    """
    try:
        _move(directory, done)
    except KeyboardInterrupt:
        _move(directory, done)
        raise


def _move(directory: Path, done: Path) -> None:
    saved = directory / SAVED
    for path, there in _pairs(saved / "new", directory):
        if path.is_dir():
            there.mkdir(exist_ok=True)
        else:
            with contextlib.suppress(FileNotFoundError):  # another process has moved it
                os.replace(path, there)
    for path, there in _pairs(saved / "stale", directory):
        if not path.is_dir() and os.path.lexists(there):
            there.unlink(missing_ok=True)
    flush(directory)
    with contextlib.suppress(FileNotFoundError):  # another process did it
        os.rename(saved, done)  # another save's rename could replace an empty `SAVED`
    shutil.rmtree(done, ignore_errors=True)


def _pairs(source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    """Yields each path in a directory, parents first, with its place in another directory.

    Raises:
        OSError: if a folder on the way is a symbolic link.
    """
    for path in sorted(source.rglob("*")):
        there = target / path.relative_to(source)
        for folder in (source, there.parent):
            if folder.is_symlink() and folder != target:
                raise OSError(errno.ELOOP, f"{folder} is a link", os.fspath(folder))
        yield path, there


def _unfinished(directory: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{directory} holds a save that was interrupted and cannot be finished: "
        f"{error.strerror or error}. Open it again with permission to write its files."
    )
