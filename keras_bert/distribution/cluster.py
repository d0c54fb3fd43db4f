"""Which processes train together, and which of them this one is, as its environment says."""

import dataclasses
import json
import os
import re
import socket
from collections.abc import Callable, Mapping

import tensorflow as tf

from keras_bert.errors import InputError

PORT = 8888


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers that train together.

    Args:
        workers: an address "host:port" each; the first one is the chief, which alone writes.
        index: of this process.
    """

    workers: tuple[str, ...]
    index: int


def from_tf_config(environment: Mapping[str, str]) -> Cluster:
    """As `TF_CONFIG` says, which TensorFlow documents for all its strategies.

    Raises:
        InputError: if it is missing or no worker of the cluster.
    """
    text = environment.get("TF_CONFIG")
    if not text:
        raise InputError(
            "The strategy 'multi_worker' needs the environment variable TF_CONFIG, for instance "
            '{"cluster": {"worker": ["a:8888", "b:8888"]}, "task": {"type": "worker", "index": 0}};'
            " set it for every worker, or the option cluster to slurm or kubernetes."
        )
    try:
        said = json.loads(text)
        jobs, task = dict(said["cluster"]), said["task"]
        chief, others = list(jobs.pop("chief", [])), list(jobs.pop("worker", []))
        index = int(task["index"]) + len(chief) * (task["type"] == "worker")
        workers = tuple(map(str, (*chief, *others)))
        known = not jobs and task["type"] in ("chief", "worker") and 0 <= index < len(workers)
    except (ValueError, KeyError, TypeError):
        known = False
    if not known:
        raise InputError(
            f"TF_CONFIG is {text!r}, but must name a cluster of workers (and, if one likes, a "
            'chief) and the task of this process among them: {"cluster": {"worker": ["a:8888", '
            '"b:8888"]}, "task": {"type": "worker", "index": 0}}.'
        )
    return Cluster(workers, index)


def from_slurm(environment: Mapping[str, str]) -> Cluster:
    """The tasks of a job step, started by `srun`, one or more on a node.

    Which GPUs a task sees is left to Slurm (`--gpus-per-task`).

    Raises:
        InputError: outside of a job step.
    """
    many = 1024  # "GPUs" of a node, one for each task: without any, TensorFlow finds no tasks
    try:
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
            port_base=PORT, gpus_per_node=many, gpus_per_task=1, auto_set_gpu=False
        )
        workers = resolver.cluster_spec().as_dict()["worker"]
        return Cluster(tuple(workers), int(environment["SLURM_PROCID"]))
    except (RuntimeError, KeyError, ValueError) as error:
        raise InputError(
            "The cluster 'slurm' needs what srun tells its tasks (SLURM_PROCID, "
            f"SLURM_STEP_NODELIST and the like): {error}. Start the run with srun."
        ) from error


def from_kubernetes(environment: Mapping[str, str]) -> Cluster:
    """The pods of an indexed Job or a StatefulSet behind a headless service.

    Their names end in their index, so that nothing has to be asked: neither rights nor a client
    for the programming interface of Kubernetes are needed, as TensorFlow's own resolver does,
    which also does not know the index.

    Raises:
        InputError: if `WORKERS`, the number of pods, is not set, or the pod's name has no index.
    """
    name = environment.get("POD_NAME") or socket.getfqdn()  # NAME-INDEX.SERVICE.NAMESPACE.svc...
    parts = re.fullmatch(r"([^.]*-)(\d+)(\..*)?", name)
    count = environment.get("WORKERS", "")
    if not parts or not count.isdigit() or not int(parts[2]) < int(count):
        raise InputError(
            f"The cluster 'kubernetes' needs the environment variable WORKERS, the number of pods "
            f"(it is {count!r}), and a pod whose name ends in its index (it is {name!r}), as in an "
            "indexed Job or a StatefulSet with a headless service."
        )
    stem, index, domain = parts[1], int(parts[2]), parts[3] or ""
    return Cluster(tuple(f"{stem}{n}{domain}:{PORT}" for n in range(int(count))), index)


CLUSTERS: dict[str, Callable[[Mapping[str, str]], Cluster]] = {
    "tf_config": from_tf_config,
    "slurm": from_slurm,
    "kubernetes": from_kubernetes,
}


def find_cluster(name: str) -> Cluster:
    """The cluster of this process, as one of `CLUSTERS` finds it.

    Raises:
        InputError: if it is not there.
    """
    return CLUSTERS[name](os.environ)
