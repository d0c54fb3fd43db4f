"""Steps on Keras' JAX backend: `python -m tests.pretraining.jax_run DIRECTORY OBJECTIVE...`.

XLA_FLAGS must make two CPU devices. Reads the first weights of each objective there, and writes
what ten steps on both devices do; then, with the last objective, what the `VARIANTS` do.
"""

import sys
from pathlib import Path

import jax
import keras
import numpy as np

from keras_bert.checkpoints.variables import named_variables
from keras_bert.optimizers.schedules import WarmupLinearDecay
from keras_bert.optimizers.update_rules import lamb
from keras_bert.pretraining.objectives.models import with_seeds
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.training.jax_step import JaxTrainingStep
from tests.pretraining.models import batches, make_model

VARIANTS = {
    "one-device": {"number": 3, "devices": 1, "dropout": 0.2},
    "two-devices": {"number": 3, "devices": 2, "dropout": 0.2},
    "accumulation": {"number": 10, "devices": 2, "gradient_accumulation_steps": 4},
    "lamb": {"number": 10, "devices": 2, "optimizer": lamb},
}


def train(objective, weights, number, devices, dropout=0.0, **options):
    devices = [f"cpu:{index}" for index in range(devices)]
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices))
    model = make_model(objective, dropout)
    ours = [variable for variable in model.weights if "seed" not in variable.path]
    for variable, weight in zip(ours, weights, strict=True):
        variable.assign(weight)
    step = JaxTrainingStep(
        model,
        WarmupLinearDecay(1e-2, 3, 20),
        objective=OBJECTIVES[objective],
        weight_decay=0.1,
        global_clipnorm=0.05,
        **options,
    )
    check_seeds(step)
    state, results = step.start(), []
    for batch in batches(number, objective=objective):
        state, result = step(state, batch)
        results.append(jax.device_get(result))
    assert step._train._cache_size() == 1  # compiled once
    assert all(len(value.sharding.device_set) == len(devices) for value in state.values)
    step.finish(state)
    trained = named_variables(model, model.trainable_variables)
    return {
        "sums": np.stack([result["sums"] for result in results]),
        "norms": np.stack([result["gradient_norm"] for result in results]),
        **{name: np.asarray(variable.value) for name, variable in trained.items()},
    }


def check_seeds(step):
    """Every generator has another one in every step."""
    values = [variable.value for variable in step.model.non_trainable_variables]
    states = [
        np.asarray(value)
        for number in (0, 1)
        for value in with_seeds(step.model, values, step._seeds(number))
    ]
    seeds = [tuple(state) for state in states if state.dtype == np.uint32]
    assert len(set(seeds)) == len(seeds)


if __name__ == "__main__":
    directory, *objectives = sys.argv[1:]
    for objective in objectives:
        weights = np.load(Path(directory) / f"{objective}.npz").values()
        after = train(objective, weights, number=10, devices=2)
        np.savez(Path(directory) / f"{objective}-after.npz", **after)
    for name, options in VARIANTS.items():
        np.savez(Path(directory) / f"{name}.npz", **train(objective, weights, **options))
    assert "tensorflow" not in sys.modules
