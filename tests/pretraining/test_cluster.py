"""Who trains together, as environments say it."""

import json

import pytest
import tensorflow as tf

from keras_bert.distribution import strategy
from keras_bert.distribution.strategy import (
    Cluster,
    from_kubernetes,
    from_slurm,
    from_tf_config,
    make_strategy,
)
from keras_bert.errors import InputError


def tf_config(cluster, kind="worker", index=0):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


def test_tf_config_names_workers_and_maybe_a_chief():
    two = tf_config({"worker": ["a:1", "b:1"]}, index=1)
    assert from_tf_config(two) == Cluster(("a:1", "b:1"), 1)
    three = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    assert from_tf_config(tf_config(three, "chief")) == Cluster(("a:1", "b:1", "c:1"), 0)
    assert from_tf_config(tf_config(three, "worker", 1)) == Cluster(("a:1", "b:1", "c:1"), 2)


@pytest.mark.parametrize(
    "environment",
    [
        {"TF_CONFIG": "{"},
        {"TF_CONFIG": "[]"},
        {"TF_CONFIG": '{"cluster": {"worker": ["a:1"]}}'},
        tf_config({"worker": ["a:1"]}, index=1),
        tf_config({"worker": ["a:1"]}, index=-1),
        tf_config({"worker": ["a:1"]}, "evaluator"),
        tf_config({"worker": ["a:1"], "ps": ["b:1"]}),
        tf_config({}),
    ],
)
def test_tf_config_that_is_no_cluster(environment):
    with pytest.raises(InputError, match="TF_CONFIG is .* but must name the workers"):
        from_tf_config(environment)


def test_missing_tf_config_and_names_that_are_none(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(InputError, match="needs the environment variable TF_CONFIG"):
        make_strategy("multi_worker")
    with pytest.raises(InputError, match="'slurmm'.*slurm"):
        make_strategy("multi_worker", "slurmm")
    with pytest.raises(InputError, match="'mirrored' has no cluster"):
        make_strategy("mirrored", "slurm")
    with pytest.raises(InputError, match="multi_worker"):
        make_strategy("multi-worker")


def test_slurm_tells_tasks_in_the_order_of_nodes(monkeypatch):
    step = {
        "SLURM_PROCID": "2",
        "SLURM_STEP_NUM_TASKS": "3",
        "SLURM_STEP_NODELIST": "node[1-2]",
        "SLURM_STEP_TASKS_PER_NODE": "2,1",
    }
    for name, value in step.items():
        monkeypatch.setenv(name, value)
    assert from_slurm(step) == Cluster(("node1:8888", "node1:8889", "node2:8888"), 2)
    monkeypatch.delenv("SLURM_STEP_NODELIST")
    with pytest.raises(InputError, match="srun"):
        from_slurm(step)


def test_kubernetes_tells_pods_by_their_names():
    pod = {"POD_NAME": "bert-1.bert.default.svc", "WORKERS": "2"}
    workers = ("bert-0.bert.default.svc:8888", "bert-1.bert.default.svc:8888")
    assert from_kubernetes(pod) == Cluster(workers, 1)
    for wrong in ({"WORKERS": ""}, {"WORKERS": "1"}, {"POD_NAME": "bert.default"}):
        with pytest.raises(InputError, match="WORKERS"):
            from_kubernetes(pod | wrong)


def test_no_tpu_here():
    with pytest.raises(InputError) as refusal:
        make_strategy("tpu")
    assert str(refusal.value) == (
        "There is no TPU on this machine (TPUs not found in the cluster). Run on a TPU VM, name "
        "the TPU with the option cluster, or choose another strategy."
    )


@pytest.mark.parametrize(
    ("flags", "limit", "expected"),
    [
        ("fpu avx512f amx_bf16 amx_int8", "", "mixed_bfloat16"),
        ("fpu avx512f avx512_bf16", "ALL", "mixed_bfloat16"),
        ("fpu avx512f", "", "float32"),
        ("fpu amx_bf16", "AVX2", "float32"),
        ("fpu amx_bf16", "avx512_core_vnni", "float32"),
        ("fpu amx_bf16", "AVX512_CORE_BF16", "mixed_bfloat16"),
        (None, "", "float32"),  # no Linux
    ],
)
def test_the_precision_that_processors_are_fast_in(flags, limit, expected, tmp_path, monkeypatch):
    path = tmp_path / "cpuinfo"
    if flags is not None:
        path.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t:\n")
    monkeypatch.setattr(strategy, "_CPU_INFO", path)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    if limit:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    assert strategy.fast_precision(make_strategy("default"))[0] == expected


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [([(8, 0)], "mixed_bfloat16"), ([(9, 0), (7, 5)], "float32"), ([None], "float32")],
)
def test_the_precision_that_gpus_are_fast_in(capabilities, expected, monkeypatch):
    details = dict(enumerate(capabilities))
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: list(details))
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda gpu: {"compute_capability": details[gpu]} if details[gpu] else {},
    )
    assert strategy.fast_precision(make_strategy("default"))[0] == expected
