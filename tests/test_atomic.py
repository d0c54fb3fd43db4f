"""Outputs are there complete or not at all, wherever the process is stopped."""

import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from keras_bert import atomic
from keras_bert.atomic import (
    SAVED,
    discard,
    finish_interrupted,
    remove_scratch,
    replacing,
    written_with,
)
from keras_bert.errors import InputError, StorageError
from tests.kills import Kill, fork, kills
from tests.trees import FOREIGN, tree, write

OURS = written_with("config", "weights", "part/config", "vocabulary", "links")


OLD = {"config": "old", "weights": "old", "vocabulary": "old"}
NEW = {"config": "new", "weights": "new", "part/config": "new"}  # and no vocabulary


def save(target, files=NEW):
    with replacing(target, owned=OURS) as path:
        write(path, files)


@pytest.fixture
def model(tmp_path):
    write(tmp_path / "model", OLD | FOREIGN)
    return tmp_path / "model"


def test_other_files_stay_and_stale_ones_of_ours_go(model):
    before = model.stat().st_ino
    save(model)
    write(model.parent / "expected", NEW | FOREIGN)
    assert tree(model) == tree(model.parent / "expected")
    assert model.stat().st_ino == before


def all_kills(action, restore):
    restore()
    outcome = fork(action)
    assert outcome.code == 0, outcome.said
    for kill in kills(outcome.calls):
        restore()
        outcome = fork(action, kill)
        expected = -signal.SIGKILL if kill.signal == signal.SIGKILL else 130
        assert outcome.code == expected, (kill, outcome)
        yield kill


def test_wherever_a_save_is_stopped_one_model_is_whole(tmp_path):
    place, recovered = tmp_path / "model", 0
    for files, name in ((OLD | FOREIGN, "old"), (NEW | FOREIGN, "new")):
        write(tmp_path / name, files)
    old, new = tree(tmp_path / "old"), tree(tmp_path / "new")

    def restore():
        discard(place)
        write(place, OLD | FOREIGN)

    for kill in all_kills(lambda: save(place), restore):
        recovered += (place / SAVED).exists()
        if kill.signal == signal.SIGINT:
            assert tree(place) in (old, new), kill
        remove_scratch(place)
        finish_interrupted(place)
        assert tree(place) in (old, new), kill
        save(place)
        assert tree(place) == new, kill
        assert not list(tmp_path.glob(".*"))
    assert recovered == len({**OLD, **NEW}) + 1  # before each move and deletion, and the end


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_is_new_appears_at_once(kind, tmp_path):
    place = tmp_path / "out" / "new"

    def make():
        with replacing(place, owned=OURS if kind == "folder" else None) as path:
            write(path, NEW) if kind == "folder" else path.write_text("new")

    for kill in all_kills(make, lambda: discard(tmp_path / "out")):
        if place.exists() and kind == "folder":
            write(tmp_path / "new", NEW)
            assert tree(place) == tree(tmp_path / "new"), kill
        elif place.exists():
            assert place.read_text() == "new", kill
        make()
        assert os.listdir(tmp_path / "out") == ["new"], kill


def test_what_is_removed_is_never_half_there(tmp_path):
    place = tmp_path / "model"

    def restore():
        remove_scratch(place)
        if not place.exists():
            write(place, OLD)

    restore()
    whole = tree(place)
    for kill in all_kills(lambda: discard(place), restore):
        assert not place.exists() or tree(place) == whole, kill
    discard(place)
    discard(place)
    remove_scratch(place)
    assert not any(tmp_path.iterdir())


def killed_when_it_counts(place):
    """Leaves a committed save before any of its files is in place."""
    outcome = fork(lambda: save(place), Kill(0, signal.SIGKILL, True))
    assert outcome.code == -signal.SIGKILL
    assert (place / SAVED).exists()


def test_the_next_command_says_that_it_finishes(model, caplog):
    killed_when_it_counts(model)
    finish_interrupted(model)
    assert caplog.messages == [f"{model}: finished a save that had been interrupted."]
    finish_interrupted(model)
    assert len(caplog.messages) == 1


def test_an_error_leaves_everything(model):
    before = tree(model)

    def fail():
        with replacing(model, owned=OURS) as path:
            write(path, NEW)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert tree(model) == before


@pytest.mark.parametrize(
    ("there", "message"),
    [
        ("notes.txt", "is not empty and was not written by keras-bert"),
        ("weights/notes.txt", "weights was not written by keras-bert, but a new file has"),
        ("part", "part was not written by keras-bert"),
    ],
)
def test_what_is_not_ours_is_refused(there, message, tmp_path):
    write(tmp_path / "model", {there: "mine"} | ({} if there == "notes.txt" else {"config": ""}))
    before = tree(tmp_path)
    with pytest.raises(InputError, match=message):
        save(tmp_path / "model")
    assert tree(tmp_path) == before


def test_a_file_that_a_format_forgot_to_name_is_refused(model):
    write(model, {"surprise": "mine"})
    before = tree(model)
    with pytest.raises(InputError, match="surprise was not written by keras-bert"):
        save(model, NEW | {"surprise": "new"})
    assert tree(model) == before


def test_links_stay_links_and_lead_nowhere_else(model, tmp_path):
    (tmp_path / "link").symlink_to(model)
    save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (model / "config").read_text() == "new"
    (tmp_path / "elsewhere").write_text("mine")
    (model / "weights").unlink()
    (model / "weights").symlink_to(tmp_path / "elsewhere")
    save(model)
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert not (model / "weights").is_symlink()


@pytest.mark.parametrize("part", ["new", "stale"])
def test_a_hostile_directory_changes_nothing_elsewhere(part, tmp_path):
    write(tmp_path / "home", {"secret": "mine"})
    before = tree(tmp_path / "home")
    folder = tmp_path / "model"
    (folder / SAVED).mkdir(parents=True)
    write(folder / SAVED / part, {"link/secret": "theirs"})
    (folder / "link").symlink_to(tmp_path / "home")
    with pytest.raises(StorageError, match="link is a link"):
        finish_interrupted(folder)
    (folder / "link").unlink()
    (folder / SAVED / part / "link" / "secret").unlink()
    (folder / SAVED / part / "link").rmdir()
    (folder / SAVED / part).rmdir()
    (folder / SAVED / part).symlink_to(tmp_path / "home")
    with pytest.raises(StorageError, match=f"{part} is a link"):
        finish_interrupted(folder)
    assert tree(tmp_path / "home") == before


def test_what_cannot_be_finished_is_one_sentence(model):
    killed_when_it_counts(model)
    (model / "weights").unlink()
    (model / "weights").mkdir()
    with pytest.raises(
        StorageError, match="holds a save that was interrupted and cannot be finish"
    ):
        finish_interrupted(model)
    (model / "weights").rmdir()
    finish_interrupted(model)
    assert (model / "weights").read_text() == "new"


WAITING = """
import sys
from keras_bert.atomic import replacing
with replacing(sys.argv[1]) as path:
    path.write_text("second")
    print(path, flush=True)
    sys.stdin.readline()
"""


def test_scratch_of_a_living_process_stays(tmp_path):
    command = [sys.executable, "-c", WAITING, tmp_path / "file"]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
        process.stdout.readline()
        remove_scratch(tmp_path / "file")
        with replacing(tmp_path / "file") as path:
            path.write_text("first")
        assert len(os.listdir(tmp_path)) == 2
        process.communicate("\n")
    assert (tmp_path / "file").read_text() == "second"
    assert os.listdir(tmp_path) == ["file"]


def test_two_writers_leave_one_of_their_models(model, tmp_path):
    contents = [{name: letter for name in NEW} for letter in "ab"]

    def writer(files):
        for _ in range(40):
            save(model, files)

    with ThreadPoolExecutor() as pool:
        list(pool.map(writer, contents))
    assert not list(model.glob(".keras_bert*"))
    for number, files in enumerate(contents):
        write(tmp_path / str(number), files | FOREIGN)
    assert tree(model) in [tree(tmp_path / "0"), tree(tmp_path / "1")]


def test_a_writer_deletes_what_another_one_has_just_written(model, monkeypatch):
    save(model, NEW)  # without a vocabulary
    commit = atomic._commit

    def late(scratch, place):
        monkeypatch.setattr(atomic, "_commit", commit)
        save(model, OLD)
        commit(scratch, place)

    monkeypatch.setattr(atomic, "_commit", late)
    save(model, NEW)
    assert (model / "config").read_text() == "new"
    assert not (model / "vocabulary").exists()


def test_names_without_a_new_file_that_are_folders_or_behind_links_stay(model, tmp_path):
    (model / "vocabulary").unlink()
    write(model / "vocabulary", {"notes.txt": "mine"})
    (model / "part").rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "config").write_text("mine")
    (model / "part").symlink_to(tmp_path / "elsewhere")
    save(model, {"config": "new", "weights": "new"})
    assert (model / "config").read_text() == "new"
    assert (model / "vocabulary" / "notes.txt").read_text() == "mine"
    assert (tmp_path / "elsewhere" / "config").read_text() == "mine"


def test_files_are_as_readable_as_others(model):
    mask = os.umask(0o027)
    try:
        save(model)
        save(model.parent / "fresh")
    finally:
        os.umask(mask)
    for place in (model, model.parent / "fresh"):
        assert stat.S_IMODE((place / "weights").stat().st_mode) == 0o640
        assert stat.S_IMODE((place / "part").stat().st_mode) in (0o750, 0o755)


def test_a_save_that_begins_to_count_right_after_the_look_is_left_alone(tmp_path, monkeypatch):
    def look(path, *_):
        path.mkdir()  # another process commits its save now
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "open", look)
    finish_interrupted(tmp_path)
    assert (tmp_path / SAVED).is_dir()
