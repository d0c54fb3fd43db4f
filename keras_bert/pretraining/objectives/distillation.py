"""Model with a student and its teacher (DistilBERT)."""

import logging
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_bert.checkpoints.variables import named_variables
from keras_bert.errors import InputError
from keras_bert.tasks.masked_lm import MaskedLanguageModel

PARTS_OF_LAYER = "encoder/layer_"
POSITIONS = "encoder/embeddings/position_embedding"

logger = logging.getLogger(__name__)


class DistillationModel(keras.Model):
    """A student and its frozen teacher, both masked language models.

    DistilBERT (Sanh et al. 2019, https://arxiv.org/abs/1910.01108, section 3).

    Args:
        student: model to train. It is the final model.
        teacher: model with the same width and vocabulary.
        every_token: whether the student learns the teacher's distributions at all tokens, or only
            at masked tokens.

    Raises:
        InputError: if the teacher does not fit the student.
    """

    def __init__(
        self, student: MaskedLanguageModel, teacher: MaskedLanguageModel, *, every_token: bool
    ):
        super().__init__(dtype=student.dtype_policy)
        for name in ("hidden_size", "vocabulary_size"):
            size, teacher_size = getattr(student.config, name), getattr(teacher.config, name)
            if size != teacher_size:
                raise InputError(
                    f"The student's {name} is {size}, but the teacher's is {teacher_size}; "
                    f"distillation needs them to be equal: set model.encoder.{name}."
                )
        self.student = student
        self.encoder = student.encoder
        self.teacher = teacher
        self.teacher.trainable = False
        self.every_token = every_token
        self.built = True

    def call(self, inputs: Mapping[str, Any], training: bool | None = None) -> dict[str, Any]:
        """Returns the outputs of both models. The teacher runs without dropout.

        Args:
            inputs: the encoder's inputs and `masked_positions` `[B, P]` int32.

        Returns:
            `mlm_logits` `[B, P, V]`; `logits` and `teacher_logits`, `[B, T, V]` if `every_token`,
            else `[B, P, V]`; `states` and `teacher_states` `[B, T, H]`.
        """
        positions = inputs["masked_positions"]
        wanted = None if self.every_token else positions
        student = self.student.encode(inputs, training=training)
        teacher = self.teacher.encode(inputs, training=False)
        logits = self.student.score(student, wanted, training)
        return {
            "mlm_logits": (
                self.student.score(student, positions, training) if self.every_token else logits
            ),
            "logits": logits,
            "teacher_logits": ops.stop_gradient(
                self.teacher.score(teacher, wanted, training=False)
            ),
            "states": student["sequence_output"],
            "teacher_states": ops.stop_gradient(teacher["sequence_output"]),
        }


def copy_from_teacher(student: MaskedLanguageModel, teacher: MaskedLanguageModel) -> None:
    """Copies weights of the teacher to the student, which may have fewer layers.

    The student gets evenly spaced layers of the teacher, from the first to the last. For example, 6
    layers get the layers 0, 2, 4, 7, 9 and 11 of 12, as published. If the teacher has no weight of
    the same name and shape, a weight of the student is not changed, and its name is logged.
    """
    layers = np.linspace(
        0, teacher.config.num_distinct_layers - 1, student.config.num_distinct_layers
    )
    values, left = named_variables(teacher), []
    for name, variable in named_variables(student).items():
        teacher_name = name
        if name.startswith(PARTS_OF_LAYER):
            number, _, part = name.removeprefix(PARTS_OF_LAYER).partition("/")
            teacher_name = f"{PARTS_OF_LAYER}{round(layers[int(number)])}/{part}"
        value = values.get(teacher_name)
        if (
            value is not None and name == POSITIONS
        ):  # the teacher's first position may be in another row
            value = np.asarray(value)[teacher.config.position_offset :]
            offset = student.config.position_offset
            value = np.pad(value, ((offset, 0), (0, 0)))[: variable.shape[0]]
        if value is None or tuple(value.shape) != tuple(variable.shape):
            left.append(name)
        else:
            variable.assign(value)
    if left:
        logger.warning("Not taken from the teacher, initialized at random: %s.", ", ".join(left))
