import json
import subprocess

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.optimizers.distributed import LAMB, AdamW, StableAdamW
from keras_bert.optimizers.loss_scale import LossScale
from keras_bert.optimizers.schedules import LR_SCHEDULES, WarmupCosineDecay, WarmupSqrtDecay
from keras_bert.optimizers.update_rules import Update, Weight, decays, stable_adamw
from keras_bert.pretraining.training import trainer as trainer_module
from keras_bert.pretraining.training.trainer import make_optimizer, pretrain
from tests.adamw import adamw
from tests.pretraining.run import assert_same_run, config, interrupt, log

OPTIONS = {"weight_decay": 0.1, "betas": (0.8, 0.95), "epsilon": 1e-4}
SHAPES = {
    "dense/kernel": (4, 3),
    "new/kernel": (3, 2),
    "dense/bias": (3,),
    "layer_norm/gamma": (3,),
}


def variables():
    rng = np.random.default_rng(0)
    values = {name: rng.normal(size=shape) for name, shape in SHAPES.items()}
    values["new/kernel"] *= 0  # a layer of zeros has no length to scale by
    return {name: tf.Variable(value.astype("float32")) for name, value in values.items()}


def random_gradients(steps, seed=1):
    rng = np.random.default_rng(seed)
    return [{name: rng.normal(size=shape) for name, shape in SHAPES.items()} for _ in range(steps)]


def apply(optimizer, gradients, finite=True, strategy=None):
    """One update, on every replica."""
    tensors = {name: tf.constant(value, tf.float32) for name, value in gradients.items()}
    run = (strategy or tf.distribute.get_strategy()).run
    tf.function(run)(optimizer.apply, args=(tensors, tf.constant(finite)))


def values(optimizer):
    return {name: variable.numpy() for name, variable in optimizer.variables.items()}


def lamb(weights, gradients, *, rate, weight_decay, betas, epsilon):
    """You et al. 2019, algorithm 2, in float64; phi is the identity."""
    weights = {name: np.array(weight, np.float64) for name, weight in weights.items()}
    first, second = ({name: 0.0 * w for name, w in weights.items()} for _ in range(2))
    for step, several in enumerate(gradients, start=1):
        for name, gradient in several.items():
            first[name] = betas[0] * first[name] + (1 - betas[0]) * gradient
            second[name] = betas[1] * second[name] + (1 - betas[1]) * gradient**2
            mean, square = (
                first[name] / (1 - betas[0] ** step),
                second[name] / (1 - betas[1] ** step),
            )
            update = mean / (np.sqrt(square) + epsilon)
            if name.endswith("kernel"):
                update = update + weight_decay * weights[name]
                size = np.linalg.norm(weights[name])
                update = update * (size / np.linalg.norm(update) if size else 1)
            weights[name] = weights[name] - rate * update
    return weights


def test_lamb_is_that_of_the_paper():
    optimizer = LAMB(variables(), lambda step: 0.02, **OPTIONS)
    gradients = random_gradients(5)
    expected = lamb(values(optimizer), gradients, rate=0.02, **OPTIONS)
    for several in gradients:
        apply(optimizer, several)
    for name, value in values(optimizer).items():
        np.testing.assert_allclose(value, expected[name], atol=1e-6, err_msg=name)


@pytest.mark.parametrize(("kind", "stable"), [(AdamW, False), (StableAdamW, True)])
def test_adamw_and_stable_adamw_are_those_of_the_papers(kind, stable):
    """The gradients are suddenly large, and in the last step below epsilon."""
    optimizer = kind(variables(), lambda step: 0.02, **OPTIONS)
    scales = (1, 1, 20, 1, 1e-6)
    gradients = [
        {name: value * scale for name, value in several.items()}
        for scale, several in zip(scales, random_gradients(5), strict=True)
    ]
    expected = adamw(
        values(optimizer).values(),
        [several.values() for several in gradients],
        rates=[0.02] * 5,
        multipliers=[1] * 4,
        decays=[0.1 * decays(name) for name in SHAPES],
        betas=OPTIONS["betas"],
        epsilon=OPTIONS["epsilon"],
        stable=stable,
    )
    for several in gradients:
        apply(optimizer, several)
    for value, wanted in zip(values(optimizer).values(), expected, strict=True):
        np.testing.assert_allclose(value, wanted, atol=1e-6)


def test_the_rule_of_stable_adamw_is_its_optimizer():
    """The step on JAX applies the rule."""
    optimizer = StableAdamW(variables(), lambda step: 0.02, **OPTIONS)
    weights = {name: Weight(value, 0 * value, 0 * value) for name, value in variables().items()}
    for number, several in enumerate(random_gradients(4), 1):
        several = {name: value * 10.0**number for name, value in several.items()}
        apply(optimizer, several)
        update = Update.number(tf.constant(float(number)), 0.02, (0.8, 0.95), 1e-4)
        for name, gradient in several.items():
            decay, gradient = (0.1 if decays(name) else None), tf.constant(gradient, tf.float32)
            weights[name] = stable_adamw(weights[name], gradient, decay, update)
    for name, value in values(optimizer).items():
        np.testing.assert_allclose(weights[name].value, value, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("decay", "decay_steps", "middle", "end"),
    [
        ("linear", None, 0.6, 0.2),
        ("cosine", None, 0.6, 0.2),
        ("one_minus_sqrt", None, 1 - 0.8 * 0.5**0.5, 0.2),
        ("constant", None, 1, 1),
        ("linear", 80, 0.2 + 0.8 * 50 / 80, 0.2),
        ("one_minus_sqrt", 64, 1 - 0.8 * (14 / 64) ** 0.5, 0.2),
        ("one_minus_sqrt", 50, 1, 0.2),
        ("cosine", 0, 1, 0.2),
    ],
)
def test_schedules(decay, decay_steps, middle, end):
    schedule = LR_SCHEDULES[decay](1.0, 10, 110, 0.2, decay_steps)
    rates = [float(schedule(step)) for step in (0, 9, 10, 60, 110, 200)]
    np.testing.assert_allclose(rates, [0.0, 0.9, 1.0, middle, end, end], atol=1e-6)
    again = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert type(again) is LR_SCHEDULES[decay]
    assert float(again(35)) == float(schedule(35))


def test_cosine():
    rates = [float(WarmupCosineDecay(1.0, 0, 100)(step)) for step in (0, 25, 50, 75)]
    np.testing.assert_allclose(rates, 0.5 + 0.5 * np.cos(np.pi * np.array([0, 0.25, 0.5, 0.75])))


def test_options_reach_the_optimizer(text_files, tmp_path, caplog):
    options = {
        "optimizer": "lamb",
        "lr_schedule": "cosine",
        "warmup_steps": 0,
        "warmup_ratio": 0.25,
    }
    options |= {"beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-4, "final_learning_rate": 1e-5}
    optimizer = make_optimizer(config(text_files, tmp_path, **options), variables(), 200)
    assert type(optimizer) is LAMB
    assert type(optimizer.schedule) is WarmupCosineDecay
    schedule = {"peak": 1e-2, "warmup_steps": 50, "total_steps": 200, "final": 1e-5}
    assert optimizer.schedule.get_config() == schedule | {"decay_steps": None}
    stable = {"optimizer": "stable_adamw", "lr_schedule": "one_minus_sqrt", "decay_ratio": 0.1}
    optimizer = make_optimizer(config(text_files, tmp_path, **options | stable), variables(), 200)
    assert type(optimizer) is StableAdamW
    assert type(optimizer.schedule) is WarmupSqrtDecay
    assert optimizer.schedule.get_config() == schedule | {"decay_steps": 20}
    assert (optimizer.betas, optimizer.epsilon) == ((0.8, 0.95), 1e-4)
    assert optimizer.loss_scale is None
    half = make_optimizer(config(text_files, tmp_path, precision="mixed_float16"), variables(), 200)
    assert half.scale == 2.0**15
    assert not caplog.records
    make_optimizer(config(text_files, tmp_path, warmup_steps=200), variables(), 200)
    assert "takes the whole run" in caplog.text


@pytest.mark.parametrize("kind", [AdamW, StableAdamW, LAMB])
def test_steps_that_overflow_leave_no_trace(kind):
    """But in the scale: the rest of the steps do what they do without them."""
    scale = LossScale(8.0, patience=2)
    optimizer = kind(variables(), lambda step: 0.02, loss_scale=scale, **OPTIONS)
    plain = kind(variables(), lambda step: 0.02, **OPTIONS)
    scales = []
    for finite, gradients in zip(
        (False, True, True, False, True), random_gradients(5), strict=True
    ):
        if finite:
            apply(plain, gradients)
        else:
            gradients = {name: value * np.inf for name, value in gradients.items()}
        apply(optimizer, gradients, finite)
        scales.append(float(optimizer.scale))
        for name, value in values(plain).items():
            np.testing.assert_array_equal(values(optimizer)[name], value)
    assert scales == [4, 4, 8, 4, 4]
    assert (int(optimizer.iterations), float(scale.skipped)) == (5, 2)
    assert "loss_scale/value" in optimizer.state


def test_the_log_of_float16_tells_the_scale(text_files, tmp_path, monkeypatch):
    monkeypatch.setattr(trainer_module, "LossScale", lambda: LossScale(2.0**126))
    run = config(text_files, tmp_path / "run", precision="mixed_float16", steps=4)
    row = pretrain(run, progress=False)["train"]
    assert (row["loss_scale"], row["skipped_steps"], row["gradient_norm"]) == (2.0**122, 4, 0)


def test_a_run_chooses_its_precision_once(text_files, tmp_path, monkeypatch, caplog):
    """A run that begins on a processor with matrix units keeps its precision on another one."""
    for steps, chosen in ((4, ("mixed_bfloat16", "of a test")), (6, ("float32", "of a test"))):
        monkeypatch.setattr(trainer_module, "fast_precision", lambda strategy, c=chosen: c)
        run = config(text_files, tmp_path / "run", precision="auto", steps=steps)
        with caplog.at_level("INFO", "keras_bert.pretraining"):
            pretrain(run, progress=False)
    assert "Precision: mixed_bfloat16, because of a test." in caplog.messages
    assert "Precision: mixed_bfloat16, because the run began with it." in caplog.messages
    written = json.loads((tmp_path / "run/pretraining.json").read_text())
    assert written["config"]["devices"]["precision"] == "mixed_bfloat16"


@pytest.mark.sweep
def test_float16_continues_exactly(text_files, tmp_path, monkeypatch):
    """The first steps overflow; the run is interrupted between them and the scale's next change."""
    monkeypatch.setattr(trainer_module, "LossScale", lambda: LossScale(2.0**30, patience=4))
    options = {"precision": "mixed_float16", "checkpoint_every": 5, "optimizer": "stable_adamw"}
    whole = pretrain(config(text_files, tmp_path / "whole", **options), progress=False)
    assert whole["after"]["mlm_loss"] < whole["before"]["mlm_loss"]
    norms = [row["gradient_norm"] for row in log(tmp_path / "whole") if row["event"] == "train"]
    assert np.isfinite(norms).all()
    run = config(text_files, tmp_path / "parts", **options)
    with monkeypatch.context() as patch:
        interrupt(patch, step=10)
        assert not pretrain(run, progress=False)["finished"]
    pretrain(run, progress=False)
    assert_same_run(tmp_path / "parts", tmp_path / "whole")


@pytest.mark.slow
def test_replicas_skip_together(forks):
    command = forks.module("tests.pretraining.test_optimizers")
    subprocess.run(command, check=True, timeout=300)


def replicas():
    """Under a strategy with two replicas: as on one device, and the same on both."""
    device = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    for kind in (AdamW, StableAdamW, LAMB):
        alone = kind(variables(), lambda step: 0.02, loss_scale=LossScale(8.0), **OPTIONS)
        with strategy.scope():
            both = kind(variables(), lambda step: 0.02, loss_scale=LossScale(8.0), **OPTIONS)
        for finite, gradients in zip((True, False, True), random_gradients(3), strict=True):
            apply(alone, gradients, finite)
            apply(both, gradients, finite, strategy)
        state = {"iterations": alone.iterations, **alone.variables, **alone.state}
        others = {"iterations": both.iterations, **both.variables, **both.state}
        for name, variable in state.items():
            for copy in others[name].values:
                np.testing.assert_allclose(copy.numpy(), variable.numpy(), rtol=1e-6, err_msg=name)


if __name__ == "__main__":
    replicas()
