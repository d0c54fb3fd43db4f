"""Write a training step as an XLA module: `python -m benchmarks.tpu.steps CASE FILE`."""

import sys
from pathlib import Path
from types import SimpleNamespace

import keras
import tensorflow as tf

from benchmarks.synthetic import random_batch
from benchmarks.tpu.cases import CASES, SMALL, Case
from keras_bert.config import EncoderConfig
from keras_bert.families import FAMILIES
from keras_bert.layers.encoder import Encoder
from keras_bert.optimizers.distributed import AdamW
from keras_bert.optimizers.schedules import WarmupLinearDecay
from keras_bert.pretraining.objectives.distillation import DistillationModel
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.training.step import TrainingStep, trainable_variables
from keras_bert.pretraining.training.throughput import training_flops
from keras_bert.tasks.masked_lm import MaskedLanguageModel


def lower(case: Case) -> tuple[bytes, int]:
    """Lowers the step that `tf.distribute` runs on each replica, optimizer included, in bfloat16.

    TensorFlow lowers functions with variables only for devices that it has, so the step is lowered
    for the CPU. If it contained an operation for CPUs only, the compiler for TPUs would refuse it.

    Returns:
        An XLA module, and the number of its floating-point operations by the formula.
    """
    objective, strategy = OBJECTIVES[case.objective], tf.distribute.get_strategy()
    config = EncoderConfig.preset(case.size) if case.size else _small(case.family)
    model = _model(case.objective, config)
    optimizer = AdamW(trainable_variables(model), WarmupLinearDecay(1e-4, 100, 1000))
    step = TrainingStep(
        model,
        optimizer,
        strategy,
        objective=objective,
        gradient_accumulation_steps=case.accumulation,
    )
    batch = tf.nest.map_structure(
        tf.constant, random_batch(objective, config.vocabulary_size, *case.sizes)
    )
    function = tf.function(lambda batch: strategy.run(step._step, args=(batch,)), jit_compile=True)
    module = function.experimental_get_compiler_ir(batch)(stage="hlo_serialized")
    return module, training_flops(model, *case.sizes)


def _small(family: str) -> EncoderConfig:
    return EncoderConfig(**(FAMILIES[family].TRAITS | SMALL))


def _model(objective: str, config: EncoderConfig) -> keras.Model:
    policy = keras.DTypePolicy("mixed_bfloat16")
    if OBJECTIVES[objective].teacher:
        student, teacher = (
            MaskedLanguageModel(Encoder(config, dtype=policy), dtype=policy) for _ in range(2)
        )
        return DistillationModel(student, teacher, every_token=objective == "distillation")
    run = SimpleNamespace(
        objective=SimpleNamespace(generator_size=None, generator_depth=None),
        model=SimpleNamespace(init_checkpoint=None),
    )
    return OBJECTIVES[objective].model(config, run, None, policy)


if __name__ == "__main__":
    module, formula = lower(CASES[sys.argv[1]])
    Path(sys.argv[2]).write_bytes(module)
    print(formula)
