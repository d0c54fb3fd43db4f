"""A directory belongs to one run, also if a process was killed while it claimed the directory."""

import os
import signal
import subprocess
import sys

import pytest

from keras_bert.atomic import locked, replacing
from keras_bert.errors import InputError
from keras_bert.pretraining.data.records import SOURCE
from keras_bert.pretraining.data.tokenization import tokenize
from keras_bert.pretraining.training.run_directory import RUN, check_directory
from keras_bert.text.wordpiece.tokenizer import WordPiece
from tests.pretraining.run import config


@pytest.fixture
def killed_while_writing():
    """Leaves what a process does that is killed before its file has its name."""

    def leave(path):
        code = (
            "import os, sys\n"
            "from keras_bert.atomic import replacing\n"
            "with replacing(sys.argv[1]) as new:\n"
            "    new.write_text('{')\n"
            "    os.kill(os.getpid(), 9)\n"
        )
        assert subprocess.run([sys.executable, "-c", code, path]).returncode == -9
        assert len(list(path.parent.iterdir())) == 1

    return leave


def test_a_run_killed_as_it_claimed_its_directory_begins_again(tmp_path, killed_while_writing):
    run = config("unused", tmp_path / "run")
    killed_while_writing(tmp_path / "run" / RUN)
    check_directory(tmp_path / "run", run)
    assert not any((tmp_path / "run").iterdir())
    (tmp_path / "run" / f".{RUN}").write_text("of somebody else")
    with pytest.raises(InputError, match="is not empty and holds no pretraining run"):
        check_directory(tmp_path / "run", run)


def test_a_bucket_is_no_directory():
    run = config("unused", "gs://bucket/run")
    with (
        pytest.raises(InputError, match="gs://bucket/run is an address, but .* of this machine"),
        locked(run.output),
    ):
        raise AssertionError
    with (
        pytest.raises(InputError, match="s3://bucket/model is an address"),
        replacing("s3://bucket/model"),
    ):
        raise AssertionError


def test_so_does_tokenizing(text_files, vocabulary, tmp_path, killed_while_writing):
    killed_while_writing(tmp_path / "records" / SOURCE)
    options = {"workers": 1, "progress": False}
    tokenize(text_files / "corpus.txt", WordPiece(vocabulary), tmp_path / "records", **options)
    assert not list((tmp_path / "records").glob(".*"))


def test_a_lock_ends_with_its_process(tmp_path):
    """Another process is refused until the first one is killed; nothing is left behind."""
    directory = tmp_path / "run"
    code = (
        "import sys, time\n"
        "from keras_bert.atomic import locked\n"
        "with locked(sys.argv[1]):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-c", code, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(InputError, match="Another run is writing to .*run; wait for its end"),
            locked(directory),
        ):
            raise AssertionError
        holder.send_signal(signal.SIGKILL)
    with locked(directory):
        (directory / "result").touch()
    assert os.listdir(directory) == ["result"]


def test_a_lock_removes_what_it_made_and_was_not_used(tmp_path):
    with locked(tmp_path / "new"):
        pass
    (tmp_path / "old").mkdir()
    with locked(tmp_path / "old"):
        pass
    assert os.listdir(tmp_path) == ["old"]
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is a file; name a directory"), locked(tmp_path / "file"):
        raise AssertionError


@pytest.mark.parametrize("content", ["", "{", "[]", '{"config": 3}', "{}"])
def test_a_damaged_description_is_one_sentence(tmp_path, content):
    (tmp_path / RUN).write_text(content)
    with pytest.raises(
        InputError, match=r"pretraining.json is damaged: .* Restore the file, or choose"
    ):
        check_directory(tmp_path, config("unused", tmp_path))
