"""A worker says which others are lost."""

import json
import os
from unittest import mock

import click
import pytest
import tensorflow as tf

from keras_bert import cli
from keras_bert.distribution.strategy import make_strategy
from keras_bert.distribution.workers import Workers
from keras_bert.errors import InputError, WorkerLostError
from tests.pretraining import processes


class Strategy(tf.distribute.MultiWorkerMirroredStrategy):
    """The second one of two."""

    cluster_resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": ["a:1", "b:1"]}), task_type="worker", task_id=1
    )

    def __init__(self):
        pass


IN_A_GRAPH = """Graph execution error:

Detected at node CollectiveReduceV2 defined at (most recent call last):
  File "workers.py", line 72, in add

"""


@pytest.mark.parametrize("where", ["", IN_A_GRAPH])
def test_a_worker_tells_what_stopped_it(where):
    error = tf.errors.InternalError(None, None, f"{where}No room for 7 bytes.\nAt node 3.")
    with pytest.raises(WorkerLostError) as refusal, Workers(Strategy()).on_worker_failure():
        raise error
    assert str(refusal.value) == (
        "Worker 1 of 2 stops, because another one has stopped or cannot be reached, or it failed "
        "itself (No room for 7 bytes). Read the messages of the others, and start all of them "
        "again: they continue from the last checkpoint."
    )
    with (
        pytest.raises(tf.errors.InternalError),
        Workers(tf.distribute.get_strategy()).on_worker_failure(),
    ):
        raise error


def test_only_the_first_of_the_last_meetings_counts(monkeypatch):
    workers, cut_off = Workers(Strategy()), tf.errors.UnavailableError(None, None, "Reset by peer.")
    meetings = mock.Mock(side_effect=[0, cut_off, cut_off])
    monkeypatch.setattr(workers, "_sum", meetings)
    workers.barrier()
    assert meetings.call_count == 2
    with pytest.raises(tf.errors.UnavailableError):
        workers.barrier()


def meet_and_leave(index):
    """The second worker is gone when the first one comes to the second meeting."""
    workers = Workers(make_strategy("multi_worker"))
    if index == 0:
        workers.barrier()
    else:
        workers.check_same(0, "meeting")
    os._exit(0)


@pytest.mark.slow
def test_who_is_left_behind_after_the_first_meeting_ends_well():
    assert processes.run_all("multi_worker", meet_and_leave) == [0, 0]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (tf.errors.UnavailableError(None, None, "No route to b."), WorkerLostError),
        (RuntimeError("Too late."), InputError),
    ],
)
def test_others_that_cannot_be_reached_may_be_so_later(error, kind, monkeypatch):
    def fail(resolver):
        raise error

    task = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", fail)
    with pytest.raises(kind, match=f"Worker 0 of 2 cannot join .*{str(error)[:-1]}") as found:
        make_strategy("multi_worker")
    assert type(found.value) is kind


@pytest.mark.parametrize(("kind", "code"), [(WorkerLostError, 75), (InputError, 2)])
def test_exit_codes_tell_what_starting_again_would_change(kind, code, monkeypatch, capsys):
    @click.command("fail")
    def fail():
        raise kind("Stopped.")

    monkeypatch.setitem(cli.group.commands, "fail", fail)
    assert cli.main(["fail"]) == code
    assert capsys.readouterr().err == "keras-bert: Stopped.\n"
