"""Whose a directory is, also where a process was killed as it claimed it."""

import subprocess
import sys
from pathlib import Path

import pytest

from keras_bert.atomic import replacing
from keras_bert.errors import InputError
from keras_bert.pretraining.directory import RUN, check_directory
from keras_bert.pretraining.records import SOURCE
from keras_bert.pretraining.tokenization import tokenize
from keras_bert.text.wordpiece import WordPiece
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
    with pytest.raises(InputError, match="gs://bucket/run is an address, but .* of this machine"):
        check_directory(Path(run.output), run)
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
