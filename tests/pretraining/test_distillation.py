import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.config import EncoderConfig
from keras_bert.errors import InputError
from keras_bert.layers.encoder import Encoder
from keras_bert.pretraining.objectives.distillation import DistillationModel, copy_from_teacher
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.training.step import trainable_variables
from keras_bert.tasks.masked_lm import MaskedLanguageModel

ROWS, LENGTH, MAX_PREDICTIONS, SIZE = 4, 10, 3, 40


def config(**changes):
    sizes = {"hidden_size": 16, "num_heads": 2, "intermediate_size": 32, "max_positions": LENGTH}
    options = {"vocabulary_size": SIZE, "num_layers": 2, "pooler": False, "num_segments": 0}
    return EncoderConfig(**(sizes | options | changes))


def make(every_token=True, **student):
    keras.utils.set_random_seed(0)
    teacher = MaskedLanguageModel(Encoder(config(num_layers=4, num_segments=2, pooler=True)))
    student = MaskedLanguageModel(Encoder(config(**student)))
    return DistillationModel(student, teacher, every_token=every_token)


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(0)
    padding = np.ones((ROWS, LENGTH), "int32")
    padding[1, 7:] = 0
    return {
        "token_ids": rng.integers(5, SIZE, (ROWS, LENGTH)).astype("int32"),
        "padding_mask": padding,
        "masked_positions": rng.integers(1, LENGTH, (ROWS, MAX_PREDICTIONS)).astype("int32"),
    }


def test_student_and_teacher(inputs):
    model = make()
    outputs = model(inputs, training=True)
    np.testing.assert_allclose(
        outputs["teacher_logits"],
        model.teacher({k: v for k, v in inputs.items() if k != "masked_positions"}, training=False),
        atol=1e-6,
    )
    assert outputs["mlm_logits"].shape == (ROWS, MAX_PREDICTIONS, SIZE)
    assert outputs["logits"].shape == (ROWS, LENGTH, SIZE)
    masked = make(every_token=False)(inputs)
    assert masked["logits"].shape == masked["teacher_logits"].shape == (ROWS, MAX_PREDICTIONS, SIZE)
    np.testing.assert_array_equal(masked["logits"], masked["mlm_logits"])


def test_only_the_student_is_trained():
    model = make()
    expected = trainable_variables(model.student)
    assert {n: id(v) for n, v in trainable_variables(model).items()} == {
        n: id(v) for n, v in expected.items()
    }


def test_the_teacher_gets_no_gradient(inputs):
    model = make()
    weights = [variable.value for variable in model.teacher.weights]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        outputs = model(inputs)
        said = [tf.reduce_sum(outputs[name]) for name in ("teacher_logits", "teacher_states")]
    assert all(gradient is None for gradient in tape.gradient(said, weights))


def test_the_total_loss_is_that_of_the_paper(inputs):
    """5 x soft targets + 2 x masked LM + 1 x cosine, at all tokens but padding."""
    rng = np.random.default_rng(1)
    outputs = {k: v.numpy() for k, v in make()(inputs).items()}
    labels = rng.integers(5, SIZE, (ROWS, MAX_PREDICTIONS)).astype("int32")
    predictions = np.ones((ROWS, MAX_PREDICTIONS), "float32")
    tokens = inputs["padding_mask"].astype("float32")
    w = {"soft_targets": tokens, "mlm_logits": predictions, "cosine": tokens}
    objective = OBJECTIVES["distillation"]
    sums = [
        h.sums(outputs, {"mlm_logits": labels}, w).numpy().tolist() for h in objective.loss_terms
    ]

    def softmax(x):
        x = np.exp(x.astype("float64"))
        return x / x.sum(-1, keepdims=True)

    p, q = softmax(outputs["teacher_logits"] / 2), softmax(outputs["logits"] / 2)
    soft = ((p * np.log(p / q)).sum(-1) * 4 * tokens).sum() / tokens.sum()
    own = np.take_along_axis(softmax(outputs["mlm_logits"]), labels[..., None], -1)
    s, t = (outputs[k].astype("float64") for k in ("states", "teacher_states"))
    cosine = (s * t).sum(-1) / np.linalg.norm(s, axis=-1) / np.linalg.norm(t, axis=-1)
    cosine = ((1 - cosine) * tokens).sum() / tokens.sum()
    measures = objective.measures(sums)
    assert measures["soft_loss"] == pytest.approx(soft, abs=1e-6)
    assert measures["cosine_loss"] == pytest.approx(cosine, abs=1e-6)
    assert measures["loss"] == pytest.approx(5 * soft - 2 * np.log(own).mean() + cosine, abs=1e-5)


def test_the_student_begins_as_every_other_layer_of_the_teacher():
    model = make()
    copy_from_teacher(model.student, model.teacher)
    for layer, taken in ((0, 0), (1, 3)):
        ours = model.student.encoder.encoder_layers[layer].weights
        theirs = model.teacher.encoder.encoder_layers[taken].weights
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(
        model.student.encoder.embeddings.token_embedding,
        model.teacher.encoder.embeddings.token_embedding,
    )
    for a, b in zip(model.student.head.weights, model.teacher.head.weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_positions_are_taken_from_where_the_teacher_counts_them(caplog):
    teacher = MaskedLanguageModel(Encoder(config(position_offset=2)))
    student = MaskedLanguageModel(Encoder(config(max_positions=6, intermediate_size=8)))
    copy_from_teacher(student, teacher)
    ours, theirs = (m.encoder.embeddings.position_embedding for m in (student, teacher))
    np.testing.assert_array_equal(ours, np.asarray(theirs)[2:8])
    copy_from_teacher(teacher, student)  # which has fewer positions
    assert [r.getMessage().count("position_embedding") for r in caplog.records] == [0, 1]
    assert all("layer_1/intermediate/kernel" in r.getMessage() for r in caplog.records)


@pytest.mark.parametrize("change", [{"hidden_size": 8}, {"vocabulary_size": 50}])
def test_teachers_that_do_not_fit(change):
    with pytest.raises(InputError, match=f"student's {next(iter(change))}"):
        make(**change)
