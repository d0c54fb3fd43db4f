"""The conditional random field against all paths there are."""

import itertools
import os
import subprocess
import sys

import keras
import numpy as np
import onnxruntime
import pytest
import tensorflow as tf
import tf2onnx
from ai_edge_litert.interpreter import Interpreter
from keras import ops

from keras_bert import InputError
from keras_bert.layers.crf import FORBIDDEN, IGNORED, ConditionalRandomField

L = 3


def random_field(seed=0, allowed=None, num_labels=L):
    generator = np.random.default_rng(seed)
    field = ConditionalRandomField(num_labels, allowed)
    for weight in field.weights:
        weight.assign(generator.normal(0, 1.5, weight.shape))
    return field


def random_batch(batch, length, seed=0, num_labels=L):
    """Logits, tags and a mask with holes; the last row is empty."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 2, (batch, length, num_labels)).astype("float32")
    tags = generator.integers(0, num_labels, (batch, length), dtype="int32")
    mask = generator.integers(0, 2, (batch, length), dtype="int32")
    mask[0], mask[-1] = 1, 0
    return logits, tags, mask


def path_score(weights, allowed, logits, path):
    """One path's score `[]`, written out; weights and logits `[T, L]` are float64."""
    transitions, start, end = weights
    if not path:
        return 0.0
    score = start[path[0]] if allowed[-1, path[0]] else FORBIDDEN
    score += end[path[-1]] if allowed[path[-1], -1] else FORBIDDEN
    for a, b in itertools.pairwise(path):
        score += transitions[a, b] if allowed[a, b] else FORBIDDEN
    return score + sum(row[label] for row, label in zip(logits, path, strict=True))


def all_paths(weights, allowed, logits):
    """Every path of `[T, L]` logits with its score."""
    paths = list(itertools.product(range(logits.shape[1]), repeat=len(logits)))
    return paths, np.array([path_score(weights, allowed, logits, path) for path in paths])


def log_sum(scores):
    return scores.max() + np.log(np.exp(scores - scores.max()).sum())


def brute_log_likelihood(weights, allowed, logits, tags, mask):
    """`[B]`, float64; not a number where all paths are forbidden."""
    found = []
    rows = zip(logits.astype("float64"), tags, mask.astype(bool), strict=True)
    for row, row_tags, counts in rows:
        _, scores = all_paths(weights, allowed, row[counts])
        score = path_score(weights, allowed, row[counts], row_tags[counts].tolist())
        partition = log_sum(scores)
        found.append(score - partition if partition > FORBIDDEN / 2 else np.nan)
    return np.array(found)


def arrays(field):
    return [weight.numpy().astype("float64") for weight in field.weights]


def tables():
    """Nothing forbidden, little forbidden, much forbidden."""
    generator = np.random.default_rng(7)
    return [generator.random((L + 1, L + 1)) < share for share in (1, 0.85, 0.5)]


@pytest.mark.parametrize("allowed", tables())
@pytest.mark.parametrize("length", [1, 2, 6])
def test_equal_to_all_paths(allowed, length):
    field = random_field(length, allowed)
    logits, tags, mask = random_batch(9, length, seed=length)
    expected = brute_log_likelihood(arrays(field), allowed, logits, tags, mask)
    found = field.log_likelihood(logits, tags, mask).numpy()
    # Scores that a forbidden transition puts at -10,000 have fewer digits left.
    possible, clear = expected > FORBIDDEN / 2, ~np.isnan(expected)
    np.testing.assert_allclose(found[possible], expected[possible], rtol=0, atol=1e-5)
    np.testing.assert_allclose(found[clear], expected[clear], rtol=1e-5)
    assert found[-1] == 0
    assert np.isfinite(found).all()
    marginals = field.marginals(logits, mask).numpy()
    decoded = field.decode(logits, mask).numpy()
    assert (decoded[mask == 0] == IGNORED).all()
    for index in np.flatnonzero(clear):
        counts = mask[index] == 1
        paths, scores = all_paths(arrays(field), allowed, logits[index][counts].astype("float64"))
        assert decoded[index][counts].tolist() == list(paths[scores.argmax()])
        weights, paths = np.exp(scores - log_sum(scores)), np.array(paths, int)
        sums = [weights @ (paths == label) for label in range(L)]  # [L, T]
        np.testing.assert_allclose(marginals[index][counts].T, sums, rtol=0, atol=1e-5)
        assert not marginals[index][~counts].any()


def test_no_forbidden_transition_is_decoded_where_another_path_exists():
    generator = np.random.default_rng(0)
    allowed = generator.random((L + 1, L + 1)) < 0.7
    np.fill_diagonal(allowed, True)
    allowed[-1, 0] = allowed[0, -1] = True  # so that there is always a path
    field = random_field(1, allowed)
    logits = generator.normal(0, 50, (200, 12, L)).astype("float32")
    mask = generator.integers(0, 2, (200, 12))
    for tags in field.decode(logits, mask).numpy():
        path = [L, *tags[tags != IGNORED], L]
        if len(path) > 2:
            assert all(allowed[a, b] for a, b in itertools.pairwise(path))


def test_gradients_equal_finite_differences():
    allowed = np.ones((L + 1, L + 1), bool)
    allowed[1, 1] = False
    field = random_field(3, allowed)
    logits, tags, mask = random_batch(4, 5, seed=3)
    tags[:] = np.arange(5) % 3  # no forbidden path
    x = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = ops.sum(field.log_likelihood(x, tags, mask))
    variables = [weight.value for weight in field.weights]
    gradients = [tf.convert_to_tensor(g).numpy() for g in tape.gradient(total, [*variables, x])]
    values = [*arrays(field), logits.astype("float64")]
    for value, gradient in zip(values, gradients, strict=True):
        for index in np.ndindex(value.shape):
            sums = []
            for change in (1e-5, -1e-5):
                before, value[index] = value[index], value[index] + change
                sums.append(brute_log_likelihood(values[:3], allowed, values[3], tags, mask).sum())
                value[index] = before
            assert gradient[index] == pytest.approx((sums[0] - sums[1]) / 2e-5, abs=1e-4)


def test_graph_of_any_shape_and_its_gradient():
    field = random_field()

    @tf.function(reduce_retracing=True)
    def run(logits, tags, mask):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(field.log_likelihood(logits, tags, mask))
        gradients = tape.gradient(total, [weight.value for weight in field.weights])
        return total, gradients, field.decode(logits, mask), field.marginals(logits, mask)

    for batch, length in [(2, 3), (3, 4), (5, 2), (4, 40)]:
        logits, tags, mask = random_batch(batch, length)
        total, gradients, decoded, marginals = run(*map(tf.constant, (logits, tags, mask)))
        with tf.GradientTape() as tape:
            expected = tf.reduce_sum(field.log_likelihood(logits, tags, mask))
        expected_gradients = tape.gradient(expected, [w.value for w in field.weights])
        assert total.numpy() == pytest.approx(expected.numpy(), rel=1e-5)
        for a, b in zip(gradients, expected_gradients, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)
        np.testing.assert_array_equal(decoded, field.decode(logits, mask))
        np.testing.assert_allclose(marginals, field.marginals(logits, mask), atol=1e-5)
    assert run.experimental_get_tracing_count() <= 2
    assert field.decode(np.zeros((0, 4, L), "float32"), np.zeros((0, 4))).shape == (0, 4)


def test_long_sequences_stay_exact():
    """Compares 1,000 tokens with the same recursion in float64."""
    field = random_field(5)
    logits, tags, mask = random_batch(3, 1000, seed=5)
    transitions, start, end = arrays(field)
    found = field.log_likelihood(logits, tags, mask).numpy()
    rows = zip(logits.astype("float64"), tags, mask.astype(bool), found, strict=True)
    for row, row_tags, counts, value in rows:
        row, path = row[counts], row_tags[counts].tolist()
        if not path:
            continue
        state = start + row[0]
        for scores in row[1:]:
            state = np.array([log_sum(state + transitions[:, j]) for j in range(L)]) + scores
        expected = path_score((transitions, start, end), np.ones((L + 1, L + 1)), row, path)
        assert value == pytest.approx(expected - log_sum(state + end), rel=1e-5)


def test_float32_inside_whatever_the_policy():
    logits, tags, mask = random_batch(3, 6)
    expected = random_field().log_likelihood(logits, tags, mask)

    class Model(keras.Model):
        def __init__(self):
            super().__init__(dtype="mixed_bfloat16")
            self.field = random_field()

        def call(self, inputs):
            return self.field.log_likelihood(inputs, tags, mask)

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        found = Model()(ops.cast(logits, "bfloat16"))
        assert {w.dtype for w in random_field().weights} == {"float32"}
    finally:
        keras.config.set_dtype_policy(before)
    assert found.dtype == "float32"
    rounded = ops.cast(ops.cast(logits, "bfloat16"), "float32")
    np.testing.assert_allclose(found, random_field().log_likelihood(rounded, tags, mask), atol=1e-5)
    np.testing.assert_allclose(found, expected, rtol=0.05)


def test_it_learns_what_only_transitions_tell():
    """Labels alternate, the logits say nothing: without transitions half would be wrong."""
    field = ConditionalRandomField(2)

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.field = field

        def call(self, x):
            return x

        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return -ops.mean(self.field.log_likelihood(y_pred, y, ops.ones_like(y)))

    model = Model()
    model.compile(keras.optimizers.Adam(0.1))
    logits = np.zeros((16, 7, 2), "float32")
    tags = np.tile(np.arange(7) % 2, (16, 1)).astype("int32")
    model.fit(logits, tags, epochs=60, verbose=0)
    np.testing.assert_array_equal(field.decode(logits, tags >= 0), tags)


def test_saved_and_loaded(tmp_path):
    allowed = tables()[1]
    field = random_field(allowed=allowed)
    logits, tags, mask = random_batch(3, 6)
    inputs = (keras.Input((None, L)), keras.Input((None,), dtype="int32"))
    field.predict(logits, mask)  # of which nothing is to be saved
    keras.Model(inputs, field(*inputs)).save(tmp_path / "a.keras")
    loaded = keras.models.load_model(tmp_path / "a.keras")
    decoded, marginals = loaded.predict((logits, mask), verbose=0)
    np.testing.assert_array_equal(decoded, field.decode(logits, mask))
    np.testing.assert_allclose(marginals, field.marginals(logits, mask), atol=1e-6)
    again = next(x for x in loaded.layers if isinstance(x, ConditionalRandomField))
    np.testing.assert_array_equal(again.allowed, allowed)
    np.testing.assert_array_equal(
        again.log_likelihood(logits, tags, mask), field.log_likelihood(logits, tags, mask)
    )


def test_predictions_are_compiled_once():
    field = random_field()
    for batch, length in [(3, 4), (5, 9), (2, 7), (1, 1)]:
        logits, _, mask = random_batch(batch, length)
        decoded, marginals = field.predict(logits, mask == 1)
        np.testing.assert_array_equal(decoded, field.decode(logits, mask))
        np.testing.assert_allclose(marginals, field.marginals(logits, mask), atol=1e-6)
    model = field._predict.__self__
    assert model.predict_function.experimental_get_tracing_count() <= 2
    assert len(field.weights) == 3
    field.weights[0].assign(-field.weights[0])  # it is no copy of the weights
    np.testing.assert_array_equal(field.predict(logits, mask)[0], field.decode(logits, mask))


class Decoder(tf.Module):
    """The field as a graph of free or fixed shape."""

    def __init__(self, field, batch=None, length=None):
        super().__init__()
        self.weights = [weight.value for weight in field.weights]
        specification = [
            tf.TensorSpec([batch, length, field.num_labels], tf.float32, name="logits"),
            tf.TensorSpec([batch, length], tf.int32, name="mask"),
        ]
        self.run = tf.function(
            lambda logits, mask: {"tags": field.decode(logits, mask)},
            input_signature=specification,
            autograph=False,
        )


def saved_model(field, path):
    module = Decoder(field)
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.run})
    signature = tf.saved_model.load(str(path)).signatures["serving_default"]
    return lambda logits, mask: signature(logits=tf.constant(logits), mask=tf.constant(mask))


def tflite(field, path, *shape):
    module = Decoder(field, *shape)
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [module.run.get_concrete_function()], module
    )
    path.write_bytes(converter.convert())  # built-in operators alone: others are not asked for
    runner = Interpreter(model_path=str(path)).get_signature_runner("serving_default")
    return lambda logits, mask: runner(logits=logits, mask=mask)


def onnx(field, path):
    run = Decoder(field).run
    tf2onnx.convert.from_function(
        run, input_signature=run.input_signature, opset=18, output_path=str(path)
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda logits, mask: {"tags": session.run(["tags"], {"logits": logits, "mask": mask})[0]}


@pytest.mark.parametrize("export", [saved_model, tflite, onnx])
def test_exported(export, tmp_path):
    field = random_field(2, tables()[1])
    run = export(field, tmp_path / "a")
    for batch, length in [(1, 1), (4, 9), (3, 7), (2, 64)]:
        logits, _, mask = random_batch(batch, length)
        np.testing.assert_array_equal(run(logits, mask)["tags"], field.decode(logits, mask))


def test_exported_to_tflite_of_one_shape(tmp_path):
    field = random_field(2)
    run = tflite(field, tmp_path / "a", 1, 9)
    logits, _, mask = random_batch(2, 9)
    found = run(logits[:1], mask[:1])["tags"]
    np.testing.assert_array_equal(found, field.decode(logits[:1], mask[:1]))


JAX_PROGRAM = """
import sys
import jax, keras, numpy as np
from keras_bert.layers.crf import ConditionalRandomField

assert keras.backend.backend() == "jax"
data = dict(np.load(sys.argv[1] + "/in.npz"))
field = ConditionalRandomField(3)
for weight, name in zip(field.weights, ("transitions", "start", "end")):
    weight.assign(data[name])
logits, tags, mask = data["logits"], data["tags"], data["mask"]
value, gradient = jax.jit(jax.value_and_grad(lambda x: field.log_likelihood(x, tags, mask).sum()))(
    logits
)
decoded = jax.jit(field.decode)(logits, mask)
marginals = field.marginals(logits, mask)
np.savez(sys.argv[1] + "/out.npz", value=value, gradient=gradient, decoded=decoded,
         marginals=marginals)
assert field.supports_jit
assert "tensorflow" not in sys.modules
"""


def test_the_same_on_jax(tmp_path):
    field = random_field(4)
    logits, tags, mask = random_batch(4, 11)
    weights = dict(zip(("transitions", "start", "end"), arrays(field), strict=True))
    np.savez(tmp_path / "in.npz", logits=logits, tags=tags, mask=mask, **weights)
    environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", JAX_PROGRAM, tmp_path], check=True, env=environment)
    found = np.load(tmp_path / "out.npz")
    x = tf.constant(logits)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = ops.sum(field.log_likelihood(x, tags, mask))
    assert found["value"] == pytest.approx(value.numpy(), rel=1e-5)
    np.testing.assert_allclose(found["gradient"], tape.gradient(value, x), atol=1e-5)
    np.testing.assert_array_equal(found["decoded"], field.decode(logits, mask))
    np.testing.assert_allclose(found["marginals"], field.marginals(logits, mask), atol=1e-5)


def test_a_table_of_another_shape():
    with pytest.raises(InputError, match=r"shape \[3, 3\], but must be \[4, 4\]"):
        ConditionalRandomField(3, np.ones((3, 3)))
