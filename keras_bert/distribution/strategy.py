"""Makes strategies of `tf.distribute` by name, and finds the workers of a cluster."""

import dataclasses
import json
import os
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import tensorflow as tf

from keras_bert.errors import InputError, WorkerLostError, closest, first_sentence


def _default(cluster: str) -> tf.distribute.Strategy:
    return tf.distribute.get_strategy()


def _mirrored(cluster: str) -> tf.distribute.Strategy:
    """Uses all GPUs or, without GPUs, all logical CPUs."""
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    devices = tf.config.list_logical_devices(kind)
    return tf.distribute.MirroredStrategy([f"{kind}:{n}" for n in range(len(devices))])


def _multi_worker(cluster: str) -> tf.distribute.Strategy:
    """Uses all GPUs or the CPU of every worker."""
    found = CLUSTERS[cluster or "tf_config"](os.environ)
    workers, index = found.workers, found.index
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({"worker": list(workers)}),
        task_type="worker",
        task_id=index,
        num_accelerators={"GPU": len(tf.config.list_physical_devices("GPU"))},
        rpc_layer="grpc",
    )
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(resolver)
    except (RuntimeError, tf.errors.OpError) as error:
        kind = WorkerLostError if isinstance(error, tf.errors.OpError) else InputError
        raise kind(
            f"Worker {index} of {len(workers)} cannot join the others as {workers[index]}: "
            f"{first_sentence(error)}. Every worker needs its own free address that the others can "
            "reach, and a process in which TensorFlow has not run anything yet."
        ) from error


def _tpu(cluster: str) -> tf.distribute.Strategy:
    """Uses the TPU with this name or, by default, the TPU of this machine (a TPU VM)."""
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=cluster or "local")
        if cluster not in ("", "local"):
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except Exception as error:  # errors of the network, Google's client or the runtime
        raise InputError(
            f"There is no TPU {cluster or 'on this machine'} ({first_sentence(error)}). Run on a "
            "TPU VM, name the TPU with the option cluster, or choose another strategy."
        ) from error


STRATEGIES: dict[str, Callable[[str], tf.distribute.Strategy]] = {
    "default": _default,
    "mirrored": _mirrored,
    "multi_worker": _multi_worker,
    "tpu": _tpu,
}
"""Constructors by name. "default" uses one device, "mirrored" all devices of this machine."""


def make_strategy(name: str, cluster: str = "") -> tf.distribute.Strategy:
    """Makes the strategy with this name.

    "multi_worker" and "tpu" must be made before TensorFlow does anything else.

    Args:
        name: one of `STRATEGIES`.
        cluster: for "multi_worker", one of `CLUSTERS`, by default "tf_config". For "tpu", the TPU's
            name, by default the TPU of this machine.

    Raises:
        InputError: if the name or the cluster is unknown or missing.
        WorkerLostError: if other workers cannot be reached.
    """
    if name not in STRATEGIES:
        raise InputError(
            f"There is no strategy {name!r}.{closest(name, STRATEGIES)}"
            f" Choose one of {', '.join(STRATEGIES)}."
        )
    if name == "multi_worker" and cluster and cluster not in CLUSTERS:
        raise InputError(
            f"cluster is {cluster!r}.{closest(cluster, CLUSTERS)}"
            f" With the strategy 'multi_worker', choose one of {', '.join(CLUSTERS)}."
        )
    if cluster and name not in ("multi_worker", "tpu"):
        raise InputError(f"The strategy {name!r} has no cluster; leave the option cluster out.")
    return STRATEGIES[name](cluster)


def has_gpus() -> bool:
    """Returns whether there are GPUs. On CPUs, XLA is slower. TPUs always use XLA."""
    return bool(tf.config.list_logical_devices("GPU"))


_BFLOAT16_FLAGS = {"amx_bf16", "avx512_bf16"}
_ISA_WITH_BFLOAT16 = ("ALL", "DEFAULT", "BF16", "FP16", "AMX", "AVX10")
"""Names in the value of ONEDNN_MAX_CPU_ISA with which oneDNN may use bfloat16 instructions."""


def fast_precision(strategy: tf.distribute.Strategy) -> tuple[str, str]:
    """Returns "mixed_bfloat16" or "float32" for the devices of a strategy, and the reason.

    TensorFlow multiplies bfloat16 matrices several times faster than float32 on TPUs, on GPUs of
    compute capability 8.0 or more, and on processors with AMX or AVX-512 BF16.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return "mixed_bfloat16", "TPUs have matrix units for bfloat16"
    if gpus := tf.config.get_visible_devices("GPU"):
        found = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
        if all(details.get("compute_capability", (0, 0)) >= (8, 0) for details in found):
            return "mixed_bfloat16", "the GPUs have matrix units for bfloat16"
        return "float32", "not all GPUs have matrix units for bfloat16"
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "ALL").upper()
    if not any(part in limit for part in _ISA_WITH_BFLOAT16):
        return "float32", f"ONEDNN_MAX_CPU_ISA is {limit}"
    if os.environ.get("TF_ENABLE_ONEDNN_OPTS") == "0":
        return "float32", "TF_ENABLE_ONEDNN_OPTS is 0"
    if _BFLOAT16_FLAGS & _processor_flags():
        return "mixed_bfloat16", "the processor has AMX or AVX-512 BF16"
    return "float32", "the processor has neither AMX nor AVX-512 BF16"


_CPU_INFO = Path("/proc/cpuinfo")


def _processor_flags() -> set[str]:
    try:
        text = _CPU_INFO.read_text("utf-8")
    except OSError:  # not Linux
        return set()
    found = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return set(found[1].split()) if found else set()


def check_batch(
    strategy: tf.distribute.Strategy, batch_size: int, gradient_accumulation_steps: int, name: str
) -> None:
    """Checks that a batch can be divided among the replicas.

    Args:
        strategy: strategy of the replicas.
        batch_size: examples per step, over all replicas.
        gradient_accumulation_steps: number of micro-batches of a replica.
        name: name of the option for the batch size, for the message.

    Raises:
        InputError: if the batch cannot be divided equally.
    """
    replicas = strategy.num_replicas_in_sync
    if batch_size % (replicas * gradient_accumulation_steps):
        raise InputError(
            f"{name} is {batch_size}, which cannot be divided among {replicas} replicas and "
            f"{gradient_accumulation_steps} micro-batches (gradient_accumulation_steps); choose a "
            f"multiple of {replicas * gradient_accumulation_steps}."
        )


PORT = 8888


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The workers that train together.

    Args:
        workers: addresses "host:port". The first worker is the chief, which writes files.
        index: index of this process among the workers.
    """

    workers: tuple[str, ...]
    index: int


def from_tf_config(environment: Mapping[str, str]) -> Cluster:
    """Reads the cluster from `TF_CONFIG`, TensorFlow's environment variable.

    Raises:
        InputError: if the variable is missing, or does not describe a worker of a cluster.
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
            f"TF_CONFIG is {text!r}, but must name the workers (optionally with a chief) and the "
            'task of this process: {"cluster": {"worker": ["a:8888", "b:8888"]}, '
            '"task": {"type": "worker", "index": 0}}.'
        )
    return Cluster(workers, index)


def from_slurm(environment: Mapping[str, str]) -> Cluster:
    """Finds the tasks of a Slurm job step that `srun` started, one or more on each node.

    Slurm decides which GPUs a task can use (`--gpus-per-task`).

    Raises:
        InputError: if this process does not belong to a job step.
    """
    many = 1024  # pretend that each node has many GPUs: without GPUs, TensorFlow finds no tasks
    try:
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
            port_base=PORT, gpus_per_node=many, gpus_per_task=1, auto_set_gpu=False
        )
        workers = resolver.cluster_spec().as_dict()["worker"]
        return Cluster(tuple(workers), int(environment["SLURM_PROCID"]))
    except (RuntimeError, KeyError, ValueError) as error:
        raise InputError(
            "The cluster 'slurm' needs environment variables that srun sets, such as SLURM_PROCID "
            f"and SLURM_STEP_NODELIST: {error}. Start the run with srun."
        ) from error


def from_kubernetes(environment: Mapping[str, str]) -> Cluster:
    """Finds the pods of an indexed Job or a StatefulSet behind a headless service.

    The name of each pod ends in its index, so this function needs no Kubernetes client and no
    permissions. TensorFlow's own resolver needs both, and does not know the index.

    Raises:
        InputError: if `WORKERS`, the number of pods, is not set, or the pod's name has no index.
    """
    name = environment.get("POD_NAME") or socket.getfqdn()  # NAME-INDEX.SERVICE.NAMESPACE.svc...
    parts = re.fullmatch(r"([^.]*-)(\d+)(\..*)?", name)
    count = environment.get("WORKERS", "")
    if not parts or not count.isdigit() or not int(parts[2]) < int(count):
        raise InputError(
            f"The cluster 'kubernetes' needs the number of pods in the environment variable "
            f"WORKERS, which is {count!r}, and a pod whose name ends in its index, but the name is "
            f"{name!r}. Use an indexed Job or a StatefulSet with a headless service."
        )
    stem, index, domain = parts[1], int(parts[2]), parts[3] or ""
    return Cluster(tuple(f"{stem}{n}{domain}:{PORT}" for n in range(int(count))), index)


CLUSTERS: dict[str, Callable[[Mapping[str, str]], Cluster]] = {
    "tf_config": from_tf_config,
    "slurm": from_slurm,
    "kubernetes": from_kubernetes,
}
"""Functions by name that find the cluster in the environment of this process."""
