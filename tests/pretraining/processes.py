"""Runs in processes of their own, on any strategy, which can be told to die.

They are forked from one that has imported everything: importing takes most of a short run's time.
"""

import json
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
import zlib
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_bert.checkpoints import native
from keras_bert.errors import KerasBertError
from keras_bert.pretraining.config import PretrainingConfig
from keras_bert.pretraining.data.stream import ExampleBlock
from keras_bert.pretraining.training import checkpoints as checkpoint
from keras_bert.pretraining.training.inputs import make_examples, make_preprocessor
from keras_bert.pretraining.training.trainer import Trainer, pretrain

PROCESSES = {"default": 1, "mirrored": 1, "multi_worker": 2}
KILLED, REFUSED, INTERRUPTED = -signal.SIGKILL, 2, 130
SEEN, SAID = "seen.jsonl", "said"

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.pretraining.processes"])


def launch(config, fates=None, number=None):
    """Runs to the end of all processes; returns their exit codes.

    Args:
        config: of the run. What it says and sees stands beside its output.
        fates: index of a process to ("after", step, seconds, signal), a signal so long after a
            step, or ("during", n), a SIGKILL after the n-th file of a checkpoint.
        number: of processes; by default as many as the strategy has in `PROCESSES`.
    """
    arguments = (config.to_dict(), fates or {}, time.time())
    return run_all(config.devices.strategy, _work, *arguments, number=number)


def run_all(strategy, work, *arguments, number=None):
    """Calls `work(index, *arguments)` in all processes of a strategy; returns their exit codes."""
    addresses = [f"localhost:{port}" for port in _free_ports(number or PROCESSES[strategy])]
    processes = [
        _context.Process(target=_join, args=(strategy, addresses, index, work, *arguments))
        for index in range(len(addresses))
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(900)
        process.kill()
        process.join()
    return [process.exitcode for process in processes]


def said(config, index=0):
    """Returns the standard error of a process."""
    return Path(f"{config.output}.{SAID}{index}").read_text()


def seen(config):
    """Epoch to examples and how often the run was trained on each, in all of its launches."""
    kept = []
    for line in Path(f"{config.output}.{SEEN}").read_text().splitlines():
        try:
            launched, before, after, epoch, rows = json.loads(line)
        except ValueError:  # where a killed one was writing
            continue
        kept = [entry for entry in kept if entry[0] == launched or entry[1] <= before]
        kept.append((launched, after, epoch, rows))
    counts = defaultdict(Counter)
    for _, _, epoch, rows in kept:
        counts[epoch].update(rows)
    return counts


def examples_of(config, epoch):
    """All examples of an epoch."""
    training, _ = make_examples(config, make_preprocessor(config))
    counts = Counter()
    for batch in training.dataset(config.schedule.batch_size, epoch=epoch):
        counts.update(_names(*tf.nest.map_structure(np.array, batch)))
    return counts


def _join(strategy, addresses, index, work, *arguments):
    if strategy == "mirrored":
        cpu = tf.config.list_physical_devices("CPU")[0]
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, two)
    cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
    os.environ["TF_CONFIG"] = json.dumps(cluster)
    work(index, *arguments)


def _work(index, options, fates, launched):
    config = PretrainingConfig.from_dict(options)
    with open(f"{config.output}.{SAID}{index}", "wb") as output:
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
    _record_examples(Path(f"{config.output}.{SEEN}"), launched)
    if index in fates:
        kind, *when = fates[index]
        {"after": _die_after, "during": _die_while_writing}[kind](*when)
    try:
        finished = pretrain(config, progress=False)["finished"]
    except KerasBertError as error:
        print(error, file=sys.stderr)
        sys.exit(REFUSED)
    sys.exit(0 if finished else INTERRUPTED)


def _die_after(step, seconds, number):
    train_steps = Trainer._train_steps

    def die():
        os.kill(os.getpid(), number)

    def dying(self, *arguments):
        result = train_steps(self, *arguments)
        if self.step >= step:
            threading.Timer(seconds, die).start() if seconds else die()
        return result

    Trainer._train_steps = dying


def _die_while_writing(number):
    save_tensors, calls = native.save_tensors, []

    def dying(tensors, path):
        save_tensors(tensors, path)
        calls.append(path)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    native.save_tensors = checkpoint.save_tensors = dying


def _record_examples(path, launched):
    """Writes down what this worker trains on, before it does so: then no step goes unrecorded."""
    make_batches, train_steps, twins = (
        ExampleBlock.distributed_batches,
        Trainer._train_steps,
        [],
    )

    def make_twins(block, *arguments, **options):
        if "limit" not in options:  # not the held-out text
            twins.append(make_batches(block, *arguments, **options))
        return make_batches(block, *arguments, **options)

    def recording(self, iterator, count, *arguments):
        names = []
        local = self.strategy.experimental_local_results
        for _ in range(count):
            batch = tf.nest.map_structure(
                lambda value: np.concatenate([part.numpy() for part in local(value)]),
                next(twins[-1]),
            )
            names += _names(*batch)
        entry = [launched, self.step, self.step + count, self.place.epoch, names]
        with path.open("a") as file:
            file.write("\n" + json.dumps(entry) + "\n")
        return train_steps(self, iterator, count, *arguments)

    ExampleBlock.distributed_batches, Trainer._train_steps = make_twins, recording


def _names(x, y, w):
    """A number for each example, made of its texts before masking; none for rows that fill up."""
    tokens = np.array(x.get("original_ids", x["token_ids"]))
    names = []
    for row in np.flatnonzero(sum(part.reshape(len(part), -1).sum(1) for part in w.values())):
        if "original_ids" not in x:
            predictions = w["mlm_logits"][row] > 0
            tokens[row, x["masked_positions"][row, predictions]] = y["mlm_logits"][row, predictions]
        names.append(zlib.crc32(tokens[row].tobytes() + x["segment_ids"][row].tobytes()))
    return names


def _free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    for each in sockets:
        each.bind(("localhost", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
