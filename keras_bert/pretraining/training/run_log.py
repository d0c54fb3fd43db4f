"""The log of a run: lines of JSON, and the same values for TensorBoard.

Reading a log imports no TensorFlow.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from keras_bert.atomic import flush, replacing
from keras_bert.errors import StorageError, first_sentence
from keras_bert.text.files import UnreadableFile

LOG = "log.jsonl"


class RunLog:
    """The log of a run: `log.jsonl` and `tensorboard/` in the run's directory.

    If a run continues from a step, the rows after this step are removed first. So at the end, the
    log is the same as without an interruption.

    Args:
        directory: directory of the run.
        step: step of the checkpoint that the run continues from. 0 starts a new log.
        writes: whether this process writes the log. Other processes only read it.

    Raises:
        StorageError: if a file cannot be written.
    """

    def __init__(self, directory: Path, step: int, writes: bool = True):
        self._path = directory / LOG
        self.rows = [row for row in read_log(self._path) if row["step"] <= step]
        self._writes = writes
        if not writes:
            return
        import tensorflow as tf

        boards = directory / "tensorboard"
        shutil.rmtree(boards, ignore_errors=True)
        with self._writing():
            with replacing(self._path) as new:
                new.write_text("".join(map(_line, self.rows)))
                flush(new)
            self._writer = tf.summary.create_file_writer(str(boards))
            self._file = self._path.open("a")
            for row in self.rows:
                self._summarize(row)

    def write(self, row: dict[str, Any]) -> None:
        """Adds a row to the log. The row must have "event" and "step".

        Raises:
            StorageError: if a file cannot be written.
        """
        self.rows.append(row)
        if not self._writes:
            return
        with self._writing():
            self._file.write(_line(row))
            self._summarize(row)

    def find(self, event: str, step: int | None = None) -> dict[str, Any] | None:
        """Returns the last row of an event or, if a step is given, the event's row at this step."""
        rows = [r for r in self.rows if r["event"] == event and step in (None, r["step"])]
        return rows[-1] if rows else None

    def best_step(self) -> int | None:
        """Returns the step with the lowest held-out loss, or None. Step 0 does not count."""
        rows = [row for row in self.rows if row["event"] == "validation" and row["step"]]
        return min(rows, key=lambda row: row["loss"])["step"] if rows else None

    def add_unreadable(self, step: int, epoch: int, files: Iterable[UnreadableFile]) -> None:
        """Adds a row for each file that was left out and has no row for this epoch yet.

        Raises:
            StorageError: if a file cannot be written.
        """
        known = self.unreadable()
        for address, error in files:
            if (epoch, address) not in known:
                row = {"step": step, "epoch": epoch, "file": address, "error": error}
                self.write({"event": "unreadable_file", **row})

    def unreadable(self) -> set[tuple[int, str]]:
        """Returns the epoch and the address of each file that was left out."""
        rows = (row for row in self.rows if row["event"] == "unreadable_file")
        return {(row["epoch"], row["file"]) for row in rows}

    def flush(self) -> None:
        """Writes all rows to the disk.

        Raises:
            StorageError: if a file cannot be written.
        """
        with self._writing():
            self._file.flush()
            os.fsync(self._file.fileno())
            self._writer.flush()

    def close(self) -> None:
        """Writes all rows to the disk and closes the files.

        Raises:
            StorageError: if a file cannot be written.
        """
        if not self._writes:
            return
        self.flush()
        self._file.close()
        self._writer.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        import tensorflow as tf

        try:
            yield
        except OSError as error:
            raise StorageError(f"Cannot write {self._path}: {error.strerror}.") from error
        except tf.errors.OpError as error:
            raise StorageError(
                f"Cannot write the log for TensorBoard: {first_sentence(error)}."
            ) from error

    def _summarize(self, row: dict[str, Any]) -> None:
        import tensorflow as tf

        # tf.summary.scalar needs the tensorboard package, but only readers of the log need it.
        summary = tf.compat.v1.Summary()
        for name, value in row.items():
            if isinstance(value, float):
                summary.value.add(tag=f"{row['event']}/{name}", simple_value=value)
        with self._writer.as_default():
            tf.summary.experimental.write_raw_pb(summary.SerializeToString(), step=row["step"])


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row) + "\n"


def read_log(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a log. If there is no such file, the list is empty."""
    rows = []
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:  # a killed run left an incomplete line
                break
    return rows
