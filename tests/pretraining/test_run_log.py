"""The log of a run on a full disk."""

import contextlib
import errno
from pathlib import Path

import pytest
import tensorflow as tf

from keras_bert.errors import StorageError
from keras_bert.pretraining.training import run_log as journal
from keras_bert.pretraining.training.run_log import LOG, RunLog, read_log
from keras_bert.text.files import UnreadableFile

ROW = {"event": "train", "step": 1, "loss": 2.0}


@pytest.fixture
def written(tmp_path):
    log = RunLog(tmp_path, 0)
    log.write(ROW)
    log.close()
    return tmp_path


def test_a_log_that_cannot_be_begun_again_stays(written, monkeypatch):
    def refuse(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal, "flush", refuse)
    with pytest.raises(StorageError, match=r"Cannot write .*log\.jsonl: No space left on device"):
        RunLog(written, 0)
    assert read_log(written / LOG) == [ROW]
    assert {path.name for path in written.iterdir()} <= {LOG, "tensorboard"}


def test_a_file_that_is_left_out_has_one_row_in_an_epoch(written):
    """A run that continues inside a block of text reports the files of the block again."""
    files = [UnreadableFile("a.txt", "a.txt is empty."), UnreadableFile("b.txt", "b.txt is empty.")]
    log = RunLog(written, 1)
    log.add_unreadable(1, 0, files[:1])
    log.add_unreadable(2, 0, files)
    log.add_unreadable(3, 1, files)
    log.close()
    log = RunLog(written, 3)
    log.add_unreadable(3, 1, files)
    log.close()
    rows = [row for row in read_log(written / LOG) if row["event"] == "unreadable_file"]
    found = [(row["step"], row["epoch"], row["file"]) for row in rows]
    assert found == [(1, 0, "a.txt"), (2, 0, "b.txt"), (3, 1, "a.txt"), (3, 1, "b.txt")]
    assert {row["error"] for row in rows} == {file.error for file in files}


def test_a_full_disk(written):
    log = RunLog(written, 1)
    log._file.close()
    with contextlib.suppress(OSError), Path("/dev/full").open("w") as log._file:
        log.write(ROW)
        with pytest.raises(
            StorageError, match=r"Cannot write .*log\.jsonl: No space left on device"
        ):
            log.flush()


def test_tensorboards_file_that_cannot_be_written(written, monkeypatch):
    log = RunLog(written, 1)

    def refuse(*arguments, **options):
        raise tf.errors.ResourceExhaustedError(None, None, "No space left. More of it.")

    monkeypatch.setattr(tf.summary.experimental, "write_raw_pb", refuse)
    with pytest.raises(
        StorageError, match=r"Cannot write the log for TensorBoard: No space left\.$"
    ):
        log.write(ROW)
