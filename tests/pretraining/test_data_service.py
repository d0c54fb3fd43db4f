import contextlib
import functools
import os
import re
import socket
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.cli import main
from keras_bert.errors import InputError, WorkerLostError
from keras_bert.pretraining.data.data_service import DataHost, map_on_hosts, on_data_host_failure
from keras_bert.pretraining.data.tokenization import tokenize
from keras_bert.pretraining.training.inputs import make_examples, make_preprocessor
from keras_bert.pretraining.training.trainer import pretrain
from tests.pretraining.run import assert_same_run, config

PACKED = {"objective": "mlm", "packed": True}


data_host = functools.partial(DataHost, listen_on_all_interfaces=True)


def test_a_host_listens_on_all_interfaces_only_if_told_to(caplog):
    """The second half fails as soon as TensorFlow can bind to one address."""
    before = listening()
    with pytest.raises(InputError, match="listens on all network interfaces"):
        DataHost(host="127.0.0.1")
    assert listening() == before
    host = data_host(host="127.0.0.1")
    opened = listening() - before
    assert {address for address, _ in opened} <= {"0.0.0.0", "::"}, "TensorFlow can bind: use it"
    first, second = (int(n) for n in re.findall(r"\d+", caplog.messages[-1])[:2])
    assert {port for _, port in opened} == {first, second}
    assert "open on all network interfaces, not only on 127.0.0.1" in caplog.messages[-1]
    host.stop()


def listening():
    """Address and port of each socket of this process that accepts connections."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    links = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own
            links.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    found = set()
    for table, kind in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            local, state, inode = (line.split()[column] for column in (1, 3, 9))
            if state == "0A" and f"socket:[{inode}]" in links:
                address, _, port = local.partition(":")
                words = np.frombuffer(bytes.fromhex(address), ">u4").astype("=u4")
                found.add((socket.inet_ntop(kind, words.tobytes()), int(port, 16)))
    return found


def test_the_command_needs_the_option_and_says_so(capsys):
    assert main(["data-service", "--host", "127.0.0.1", "--port", "0", "--worker-port", "0"]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert "add --listen-on-all-interfaces" in error
    assert main(["data-service", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Anyone who can reach the two ports can read and write files" in shown


@pytest.fixture(scope="module")
def records(text_files, tmp_path_factory):
    output = tmp_path_factory.mktemp("records") / "all"
    tokenizer = make_preprocessor(config(text_files, "unused")).tokenizer
    tokenize(
        text_files / "corpus.txt", tokenizer, output, workers=1, shard_size=4096, progress=False
    )
    return str(output)


def test_two_hosts_give_every_index_once_and_in_order():
    hosts = [data_host() for _ in range(2)]
    addresses = [hosts[0].address, hosts[1].address.removeprefix("grpc://")]
    for start, end in ((0, 21), (7, 21), (20, 21)):
        indices = tf.data.Dataset.range(start, end)
        made = map_on_hosts(indices, lambda n: {"square": n * n}, addresses)
        squares = [int(x["square"]) for x in made]
        assert squares == [n * n for n in range(start, end)]


def test_another_batch_than_the_wanted_one_is_not_taken(monkeypatch):
    """As after a worker that has died and begins anew."""
    host = data_host()
    shard = tf.data.Dataset.shard
    monkeypatch.setattr(tf.data.Dataset, "shard", lambda *a: shard(*a).shuffle(50, seed=1))
    made = map_on_hosts(tf.data.Dataset.range(50), lambda n: n, [host.address])
    with pytest.raises(tf.errors.InvalidArgumentError, match="another batch than was wanted"):
        list(made)


@pytest.mark.slow
def test_a_host_that_was_gone_ends_the_run():
    """Nothing is left out or made twice."""
    hosts, seen = [data_host()], []
    numbers = tf.data.Dataset.range(10**6)
    made = map_on_hosts(numbers, lambda n: tf.fill([100_000], n), [hosts[0].address])

    def read():
        for values in made:
            seen.append(int(values[0]))
            if len(seen) == 20:
                hosts[0].stop()
                hosts[0] = data_host(int(hosts[0].address.rpartition(":")[2]))

    with pytest.raises(tf.errors.OpError, match="dispatcher restart|another batch"):
        read()
    assert seen == list(range(len(seen)))


def test_a_host_that_fails_a_run_is_reported_in_one_sentence():
    lost = tf.errors.InvalidArgumentError(None, None, "Another batch. More of it.")
    with (
        pytest.raises(WorkerLostError, match=r"\(Another batch\). Check that a:1, b:1 are running"),
        on_data_host_failure(("a:1", "b:1")),
    ):
        raise lost
    with pytest.raises(tf.errors.InvalidArgumentError), on_data_host_failure(()):
        raise lost
    with pytest.raises(tf.errors.ResourceExhaustedError), on_data_host_failure(("a:1",)):
        raise tf.errors.ResourceExhaustedError(None, None, "Memory.")


def test_only_records_can_be_read_elsewhere(text_files, tmp_path):
    run = config(text_files, tmp_path, data_service="localhost:1", **PACKED)
    with pytest.raises(
        InputError, match="corpus must be a directory that keras-bert tokenize wrote"
    ):
        make_examples(run, make_preprocessor(run))


@contextlib.contextmanager
def started_hosts(number, forks):
    """Addresses of processes that `keras-bert data-service` starts."""
    program = [forks.bin / "keras-bert", "data-service"]
    options = ["--host", "localhost", "--port", "0", "--worker-port", "0"]
    options += ["--listen-on-all-interfaces"]
    hosts = [
        subprocess.Popen([*program, *options], stdout=subprocess.PIPE, text=True)
        for _ in range(number)
    ]
    try:
        yield [re.match(r"(grpc://\S+): ready", host.stdout.readline())[1] for host in hosts]
    finally:
        for host in hosts:
            host.kill()
            host.wait()


@pytest.mark.slow
def test_a_run_fed_by_two_processes_is_the_run_fed_here(text_files, records, tmp_path, forks):
    """To the last bit, from any batch on, and while the batch grows."""
    options = {"corpus": [records], "validation_ratio": 0.1, **PACKED}
    options |= {"first_batch_size": 8, "batch_ramp_steps": 7}
    here = config(text_files, tmp_path / "here", **options)
    local = make_examples(here, make_preprocessor(here))[0].examples
    expected = tokens(local.dataset(4))
    assert len(expected) > 8
    assert len({batch.tobytes() for batch in expected}) == len(expected)
    with started_hosts(2, forks) as hosts:
        there = config(text_files, tmp_path / "there", data_service=hosts, **options)
        served = make_examples(there, make_preprocessor(there))[0].examples
        for start in (0, 3):
            later = tokens(served.dataset(4, start=4 * start))
            np.testing.assert_array_equal(later, expected[start:])
        pretrain(there, progress=False)
    pretrain(here, progress=False)
    assert_same_run(tmp_path / "there", tmp_path / "here")


def tokens(dataset):
    return [x["token_ids"] for x, *_ in dataset.as_numpy_iterator()]
