"""Two devices do what one does.

As a program: `python -m tests.finetuning.test_mirrored OUTPUT DEVICES OPTIONS`.
"""

import json
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.marks import others_swept

OPTIONS = {
    # Micro-batches, and a last batch that the devices cannot share evenly.
    "accumulation": {"gradient_accumulation_steps": 2, "batch_size": 9, "r_drop": 0.5},
    "frozen": {"frozen_layers": 1, "class_weights": "balanced", "label_smoothing": 0.1},
    "own optimizer": {"optimizer": "SGD", "learning_rate": 0.3, "global_clipnorm": 1.0},
}


def train(output, devices, options):
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    import keras

    from keras_bert.distribution.strategy import make_strategy
    from keras_bert.finetuning import Recipe, fine_tune
    from tests.finetuning import tiny

    with make_strategy("mirrored" if devices == "2" else "default").scope():
        model = tiny.classifier({**tiny.NO_DROPOUT, "num_layers": 2})
    assert model.distribute_strategy.num_replicas_in_sync == int(devices)
    recipe = {"epochs": 2, "batch_size": 10, "learning_rate": 1e-2, "global_clipnorm": 0.05}
    recipe |= json.loads(options)
    name = recipe.pop("optimizer", None)
    optimizer = name and getattr(keras.optimizers, name)  # takes the schedule
    data = tiny.opinions(43)
    fine_tune(
        model, data, data, recipe=Recipe(**recipe), optimizer=optimizer, output=output, verbose=0
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", others_swept(OPTIONS))
def test_two_devices_do_what_one_does(tmp_path, name, forks):
    for devices in ("1", "2"):
        command = [*forks.module("tests.finetuning.test_mirrored"), str(tmp_path / devices)]
        subprocess.run([*command, devices, json.dumps(OPTIONS[name])], check=True, timeout=300)
    weights = [load_file(tmp_path / n / "model" / "weights.safetensors") for n in "12"]
    for key, value in weights[0].items():
        np.testing.assert_allclose(weights[1][key], value, atol=1e-5, err_msg=key)
    histories = [(tmp_path / n / "history.jsonl").read_text().splitlines() for n in "12"]
    for one, two in zip(*(map(json.loads, lines) for lines in histories), strict=True):
        # Keras' mean of the losses counts what fills the last batch.
        assert one.pop("loss") == pytest.approx(two.pop("loss"), rel=0.02)
        assert one == pytest.approx(two, abs=1e-5)


if __name__ == "__main__":
    train(*sys.argv[1:])
