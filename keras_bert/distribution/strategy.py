"""Where the training runs: strategies of `tf.distribute` by name."""

from collections.abc import Callable

import tensorflow as tf

from keras_bert.distribution.cluster import CLUSTERS, find_cluster
from keras_bert.errors import InputError, WorkerLostError, closest, first_sentence


def _default(cluster: str) -> tf.distribute.Strategy:
    return tf.distribute.get_strategy()


def _mirrored(cluster: str) -> tf.distribute.Strategy:
    """All GPUs or, where there is none, all logical CPUs."""
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    devices = tf.config.list_logical_devices(kind)
    return tf.distribute.MirroredStrategy([f"{kind}:{n}" for n in range(len(devices))])


def _multi_worker(cluster: str) -> tf.distribute.Strategy:
    """All GPUs or the CPU of every worker."""
    found = find_cluster(cluster or "tf_config")
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
            f"{first_sentence(error)}. Every worker needs an address of its own that is free and "
            "that the others reach, and a process in which TensorFlow has done nothing yet."
        ) from error


def _tpu(cluster: str) -> tf.distribute.Strategy:
    """A TPU, by its name; by default the one of this machine, a TPU VM."""
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=cluster or "local")
        if cluster not in ("", "local"):
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except Exception as error:  # of the network, of Google's client, of the runtime
        raise InputError(
            f"There is no TPU {cluster or 'on this machine'} ({first_sentence(error)}): run on a "
            "TPU VM, name the TPU with the option cluster, or choose another strategy."
        ) from error


STRATEGIES: dict[str, Callable[[str], tf.distribute.Strategy]] = {
    "default": _default,
    "mirrored": _mirrored,
    "multi_worker": _multi_worker,
    "tpu": _tpu,
}
"""Name to constructor: "default" is one device, "mirrored" all of this machine."""


def make_strategy(name: str, cluster: str = "") -> tf.distribute.Strategy:
    """The strategy of that name.

    "multi_worker" and "tpu" must be made before TensorFlow does anything else.

    Args:
        name: one of `STRATEGIES`.
        cluster: where the others are: for "multi_worker" one of `CLUSTERS`, by default "tf_config";
            for "tpu" its name, by default that of this machine.

    Raises:
        InputError: if there is none.
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
        raise InputError(f"The strategy {name!r} has no cluster; leave that option out.")
    return STRATEGIES[name](cluster)


def profits_from_xla() -> bool:
    """Whether there are GPUs; on CPUs XLA is slower, and for TPUs everything is compiled anyway."""
    return bool(tf.config.list_logical_devices("GPU"))


def check_batch(
    strategy: tf.distribute.Strategy, batch_size: int, gradient_accumulation_steps: int, name: str
) -> None:
    """Passes for a batch, the option of that name, that can be divided among the replicas.

    Raises:
        InputError: for another.
    """
    replicas = strategy.num_replicas_in_sync
    if batch_size % (replicas * gradient_accumulation_steps):
        raise InputError(
            f"{name} {batch_size} cannot be divided among {replicas} replicas and "
            f"{gradient_accumulation_steps} parts (gradient_accumulation_steps); choose a multiple "
            f"of {replicas * gradient_accumulation_steps}."
        )
