"""Opens files by address, such as `s3://bucket/a.txt`, with fsspec.

If the store fails, reading is tried again and continues at the same byte.
"""

from __future__ import annotations

import io
import logging
import os
import re
import time
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

import fsspec

from keras_bert.errors import InputError, UnreadableFileError

_DELAYS = (0.5, 1.0, 2.0, 4.0)  # seconds before each further try
_BUFFER_BYTES = 2**18
_DENIED = (401, 403)  # statuses of HTTP
_REQUEST_BYTES = 2**23  # s3fs would request, and hold, 50 MB at a time

logger = logging.getLogger(__name__)
_T = TypeVar("_T")


def is_address(name: str) -> bool:
    """Whether a name is an address for fsspec, and not a local name."""
    return "://" in name


def find_files(pattern: str) -> dict[str, bool]:
    """Returns the addresses that a pattern matches, and whether each is a directory.

    Raises:
        InputError: if the address cannot be opened.
    """
    filesystem, path = _filesystem(pattern)
    filesystem.invalidate_cache()  # a listing that fsspec keeps may be older than the files

    def find() -> dict[str, dict[str, Any]]:
        # An existing name is not a glob, even if it contains [ or *.
        try:
            return {path: filesystem.info(path)}
        except FileNotFoundError as error:
            if _fault_behind(error) is not error:
                raise
            return _glob(filesystem, path)

    try:
        found = _retried(pattern, find)
    except FileNotFoundError:
        return {}
    is_directory = {name: info["type"] == "directory" for name, info in found.items()}
    if path in found and "::" in pattern:  # a chained address, of which `path` is only one part
        return {pattern: is_directory[path]}
    return {filesystem.unstrip_protocol(name): known for name, known in is_directory.items()}


def file_size(address: str) -> int:
    """Returns the number of bytes of a file, or 0 if the store does not tell it.

    Raises:
        UnreadableFileError: if the file does not exist or cannot be opened.
    """
    filesystem, path = _filesystem(address)
    try:
        return _retried(address, lambda: filesystem.info(path)).get("size") or 0
    except FileNotFoundError:
        raise UnreadableFileError(f"{address} does not exist: expected a file.") from None


def can_seek(address: str) -> bool:
    """Returns whether any part of a file can be read without what is before it.

    Raises:
        InputError: if the file cannot be opened.
    """
    if "::" in address:  # a member of an archive
        return False
    filesystem, path = _filesystem(address)

    def probe() -> bool:
        with filesystem.open(path, "rb", block_size=_BUFFER_BYTES) as file:
            try:
                file.seek(1)
                file.read(1)
            except ValueError:  # the server sends whole files only
                return False
            return True

    return _retried(address, probe)


def open_address(address: str) -> BinaryIO:
    """Opens a file to read bytes.

    If the store fails, reading continues at the byte where it stopped.

    Raises:
        InputError: if the address cannot be opened; also while reading, after the last try.
        FileNotFoundError: if the file does not exist.
    """
    return io.BufferedReader(_RemoteFile(address), _BUFFER_BYTES)


class _RemoteFile(io.RawIOBase):
    """File of an fsspec filesystem that is opened anew after each fault."""

    def __init__(self, address: str) -> None:
        self._file: Any = None
        self._address = address
        self._filesystem, self._path = _filesystem(address)
        info = _retried(address, lambda: self._filesystem.info(self._path))
        self._size: int | None = info.get("size")
        self._request_bytes = _REQUEST_BYTES
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_END and self._size is None:
            raise OSError("the store does not tell the file's size")
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size or 0}
        self._position = begin[whence] + offset
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        data = _retried(self._address, lambda: self._read(len(buffer)))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        self._drop()
        super().close()

    def _read(self, size: int) -> bytes:
        """Returns up to `size` bytes at the position. After a fault, the next call opens anew."""
        if self._size is not None:
            size = max(min(size, self._size - self._position), 0)
        try:
            self._open()
            data = self._file.read(size)
            if size and not data and self._size is not None:
                raise OSError(f"the store sent {self._position} of {self._size} bytes")
        except Exception as error:
            self._drop()
            if isinstance(error, ValueError):  # the server sends whole files only
                self._request_bytes = 0  # 0 opens the file as a stream
            raise
        return data

    def _open(self) -> None:
        """Opens the file, if it is not open, and moves to the position."""
        if self._file is None:
            self._file = self._filesystem.open(self._path, "rb", block_size=self._request_bytes)
        if self._file.tell() == self._position:
            return
        try:
            self._file.seek(self._position)
        except ValueError:  # a stream
            self._drop()
            self._file = self._filesystem.open(self._path, "rb", block_size=0)
            while (missing := self._position - self._file.tell()) > 0:
                if not self._file.read(min(missing, _REQUEST_BYTES)):
                    raise OSError(f"the store sent {self._file.tell()} bytes") from None

    def _drop(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _glob(filesystem: Any, pattern: str) -> dict[str, dict[str, Any]]:
    """Returns the paths that a glob matches. `filesystem.glob` would hide faults of the store."""
    magic = re.search(r"[*?\[]", pattern)
    if magic is None:
        return {}
    root = pattern[: magic.start()].rpartition("/")[0]
    below = pattern[magic.start() :]
    depth = None if "**" in below else below.count("/") + 1
    is_match = re.compile(fsspec.utils.glob_translate(pattern)).match
    return {
        info["name"]: info
        for _, *listings in filesystem.walk(root, maxdepth=depth, detail=True, on_error="raise")
        for listing in listings
        for info in listing.values()
        if is_match(info["name"].rstrip("/"))
    }


def _filesystem(address: str) -> tuple[Any, str]:
    """Returns the filesystem of an address, and the file's path in it.

    Raises:
        InputError: if the protocol is unknown, its package is missing, or the filesystem fails.
    """
    try:
        fsspec.get_filesystem_class(fsspec.utils.get_protocol(address))
    except (ImportError, ValueError) as error:  # the message names the package to install
        raise InputError(f"{address} cannot be opened: {_reason(error)}.") from error
    return _retried(address, lambda: fsspec.core.url_to_fs(address))


def _retried(address: str, action: Callable[[], _T]) -> _T:
    """Returns the action's result. Waits and tries again if the store fails.

    Raises:
        FileNotFoundError: if the action raises it.
        UnreadableFileError: if access is denied, or the last try fails.
    """
    for tries, delay in enumerate((*_DELAYS, None), start=1):
        try:
            return action()
        except InputError:
            raise
        # Not only OSError: aiohttp, botocore and gcsfs have their own errors for lost connections.
        except Exception as raised:
            error = _fault_behind(raised)
            if isinstance(error, FileNotFoundError):
                raise
            if isinstance(error, PermissionError) or getattr(error, "status", 0) in _DENIED:
                raise UnreadableFileError(f"{address} cannot be read: {_reason(error)}.") from error
            if delay is None:
                raise UnreadableFileError(
                    f"{address} cannot be read after {tries} tries: {_reason(error)}."
                ) from error
            logger.warning(
                "%s cannot be read: %s. Trying again in %s s.", address, _reason(error), delay
            )
            time.sleep(delay)
    raise AssertionError


def _fault_behind(error: Exception) -> Exception:
    """Returns the fault that fsspec's HTTP reports as a missing file, or the error itself."""
    cause = error.__cause__
    if (
        isinstance(error, FileNotFoundError)
        and isinstance(cause, Exception)
        and (isinstance(cause, TimeoutError) or type(cause).__module__.startswith("aiohttp"))
        and getattr(cause, "status", 0) != 404
    ):
        return cause
    return error


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__).rstrip(".")
