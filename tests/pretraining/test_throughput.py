import fcntl
import io
import os
import pty
import struct
import termios
from types import SimpleNamespace

import pytest
import tensorflow as tf
import tqdm.std

from keras_bert.pretraining.training import throughput
from keras_bert.pretraining.training.hooks import advance
from keras_bert.pretraining.training.throughput import Throughput, training_flops
from keras_bert.progress import make_bar
from tests.pretraining.models import make_model


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H200", 989),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA L4", 121),
        ("Tesla T4", 65),
        ("Tesla V100-SXM2-16GB", 125),
        ("Tesla V100-PCIE-16GB", 112),
        ("NVIDIA L40S", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("", None),
    ],
)
def test_gpus_by_name(monkeypatch, name, peak):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: ["device"])
    details = {"device_name": name} if name else {}
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda device: details)
    assert throughput.peak_teraflops(tf.distribute.get_strategy()) == peak


@pytest.mark.parametrize(
    ("kind", "replicas", "peak"),
    [
        ("v3-8", 8, 61.5),
        ("v4-16", 8, 275),
        ("v5litepod-8", 8, 197),
        ("v6e-4", 4, 918),
        ("", 8, None),
    ],
)
def test_tpus_by_type(monkeypatch, kind, replicas, peak):
    class Strategy(tf.distribute.TPUStrategy):
        num_replicas_in_sync = replicas

        def __init__(self):
            pass

    monkeypatch.setenv("TPU_ACCELERATOR_TYPE", kind)
    assert throughput.peak_teraflops(Strategy()) == peak


def test_what_some_steps_have_done():
    model, two = make_model("mlm"), SimpleNamespace(num_replicas_in_sync=2)
    done = {"steps": 5, "batch_size": 8, "tokens": 960, "seconds": 4.0}
    measures = Throughput(model, two, length=32, max_predictions_per_seq=4, peak=1e-3).measures(
        **done
    )
    assert measures == {
        "tokens_per_second": 240,
        "padding": 0.25,
        "mfu": pytest.approx(5 * training_flops(model, 8, 32, 4) / 4 / 2e9),
    }
    unknown = Throughput(model, tf.distribute.get_strategy(), length=32, max_predictions_per_seq=4)
    assert unknown.measures(**done).keys() == {"tokens_per_second", "padding"}


def test_time_left_is_that_of_steps_without_tracing(monkeypatch):
    """Also where a run continues, and where another size of the batch is traced later on."""
    clock = [0.0]
    monkeypatch.setattr(tqdm.std, "time", lambda: clock[0])
    monkeypatch.setattr("time.time", lambda: clock[0])
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    numbers = {"loss": 9.0, "mlm_loss": 7.0, "tokens_per_second": 99.6, "padding": 0.125}
    with make_bar(1000, 400, True) as bar:
        for look in range(6):
            traced = look in (0, 4)
            clock[0] += 90 if traced else 2  # seconds for ten steps
            advance(bar, 10, numbers | {"mfu": 0.4}, traced=traced)
            assert bar.n == 410 + 10 * look
            assert bar.format_dict["rate"] == (pytest.approx(5) if look else None)
        last = str(bar)
    assert "460/1000 [03:08<01:48" in last  # 540 steps
    assert "5.00step/s, mlm_loss=7.000, tokens/s=100, padding=12.5%, MFU=40.0%" in last
    first, *_, closed = written.getvalue().strip().split("\r")[1:]
    assert "410/1000 [01:30<?" in first
    assert "460/1000 [03:08<28:12,  3.13s/step" in closed  # of all, the graphs included


def test_no_bar_is_no_error():
    with make_bar(10, 0, False) as bar:
        advance(bar, 10, {"loss": 1.0}, traced=True)


def test_a_long_bar_fits_a_narrow_terminal(monkeypatch):
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        with make_bar(10_000_000, 1_234_567, True) as bar:
            bar.set_description("epoch 10/30")
            bar.set_postfix(loss="0.123", accuracy="0.987")
            written = os.read(reader, 65536).decode()
    os.close(reader)
    bars = [line for line in written.replace("\n", "\r").split("\r") if "/10000000" in line]
    assert bars
    assert max(map(len, bars)) <= 60


def test_a_bar_that_nobody_reads_ends_no_run(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w", 1)
    monkeypatch.setattr("sys.stderr", stream)
    for traced in (True, False):
        with make_bar(10, 0, True) as bar:
            advance(bar, 10, {"loss": 1.0}, traced=traced)
        assert bar.n == 10
    with pytest.raises(BrokenPipeError):
        stream.close()
