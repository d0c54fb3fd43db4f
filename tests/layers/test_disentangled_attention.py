"""DeBERTa's attention against the papers' formulas, in float64 NumPy, one text at a time."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert.checkpoints.variables import named_variables
from tests.jax_backend import outputs_on_jax
from tests.layers.paper import ACTIVATIONS
from tests.marks import others_swept

SMALL = {
    "vocabulary_size": 50,
    "hidden_size": 24,
    "num_layers": 3,
    "num_heads": 4,
    "intermediate_size": 40,
    "max_positions": 40,
    "position_input": False,
    "num_segments": 0,
    "pooler": False,
}
CONFIGURATIONS = {
    "v1": {"relative_positions": 40, "key_bias": False},
    "v1, clipped": {"relative_positions": 5, "key_bias": False},
    "content to position": {"relative_positions": 40, "position_terms": ("c2p",)},
    "position to content": {"relative_positions": 40, "position_terms": ("p2c",)},
    "one head": {"relative_positions": 40, "num_heads": 1},
    "neither": {"relative_positions": 40, "position_terms": ()},
    "v2": {
        "relative_positions": 40,
        "position_buckets": 8,
        "shared_position_keys": True,
        "relative_layer_norm": True,
        "convolution_size": 3,
        "convolution_activation": "gelu",
    },
    "v3": {
        "relative_positions": 20,
        "position_buckets": 12,
        "shared_position_keys": True,
        "relative_layer_norm": True,
    },
    "absolute positions": {"relative_positions": 40, "position_input": True, "num_segments": 2},
}


def make(**changes):
    encoder = kb.Encoder(kb.EncoderConfig(**SMALL | changes))
    generator = np.random.default_rng(0)
    for variable in encoder.weights:
        variable.assign(generator.normal(0.0, 0.5, variable.shape))
    return encoder


def batch(lengths=(33, 9, 1)):
    generator = np.random.default_rng(1)
    shape = (len(lengths), max(lengths))
    return {
        "token_ids": generator.integers(0, 50, shape).astype("int32"),
        "segment_ids": generator.integers(0, 2, shape).astype("int32"),
        "padding_mask": (np.arange(shape[1]) < np.array(lengths)[:, None]).astype("int32"),
    }


def bucket(config, distance):
    """Row of the table for a distance, as the papers define it."""
    span = config.position_buckets or config.relative_positions
    if config.position_buckets and abs(distance) > span // 2:
        middle, last = span // 2, config.relative_positions - 1
        growth = np.log(abs(distance) / middle) / np.log(last / middle)
        distance = np.sign(distance) * (middle + np.ceil(growth * (middle - 1)))
    return int(min(max(distance + span, 0), 2 * span - 1))


def encode(config, weights, token_ids, segment_ids, decode=None):
    """Hidden states of one text without padding; `decode`: positions of the mask decoder."""

    def linear(x, name):
        return x @ weights[f"{name}/kernel"] + weights.get(f"{name}/bias", 0.0)

    def layer_norm(x, name):
        normal = x - x.mean(-1, keepdims=True)
        normal /= np.sqrt((normal**2).mean(-1, keepdims=True) + config.layer_norm_epsilon)
        return normal * weights[f"{name}/gamma"] + weights[f"{name}/beta"]

    def layer(name, x, queries):
        size, length = config.head_size, len(x)
        project = {"query": queries, "key": x, "value": x}
        query, key, value = (linear(y, f"{name}/attention/{n}") for n, y in project.items())
        own = not config.shared_position_keys
        contexts = []
        for head in range(config.num_heads):
            part = slice(head * size, (head + 1) * size)
            logits = np.empty((length, length))
            for i in range(length):
                for j in range(length):
                    relative = table[bucket(config, i - j)]
                    logits[i, j] = query[i, part] @ key[j, part]
                    if "c2p" in config.position_terms:
                        position = linear(relative, f"{name}/attention/{'position_' * own}key")
                        logits[i, j] += query[i, part] @ position[part]
                    if "p2c" in config.position_terms:
                        position = linear(relative, f"{name}/attention/{'position_' * own}query")
                        logits[i, j] += key[j, part] @ position[part]
            logits /= np.sqrt(size * (1 + len(config.position_terms)))
            weight = np.exp(logits - logits.max(-1, keepdims=True))
            contexts.append(weight / weight.sum(-1, keepdims=True) @ value[:, part])
        attended = linear(np.concatenate(contexts, -1), f"{name}/attention/output")
        y = layer_norm(queries + attended, f"{name}/attention_layer_norm")
        inner = ACTIVATIONS[config.activation](linear(y, f"{name}/intermediate"))
        return layer_norm(y + linear(inner, f"{name}/output"), f"{name}/output_layer_norm")

    x = weights["encoder/embeddings/token_embedding"][token_ids]
    if config.position_input:
        x = x + weights["encoder/embeddings/position_embedding"][: len(x)]
    if config.num_segments:
        x = x + weights["encoder/embeddings/segment_embedding"][segment_ids]
    x = layer_norm(x, "encoder/embeddings/layer_norm")
    table = weights["encoder/relative_positions/table"]
    if config.relative_layer_norm:
        table = layer_norm(table, "encoder/relative_positions/layer_norm")
    states = [x]
    for index in range(config.num_layers):
        y = layer(f"encoder/layer_{index}", x, x)
        if config.convolution_size and index == 0:
            name, half = "encoder/convolution", config.convolution_size // 2
            kernel = weights[f"{name}/convolution/kernel"]
            padded = np.pad(x, ((half, half), (0, 0)))
            convolved = weights[f"{name}/convolution/bias"] + sum(
                padded[k : k + len(x)] @ kernel[k] for k in range(len(kernel))
            )
            activation = ACTIVATIONS[config.convolution_activation]
            y = layer_norm(y + activation(convolved), f"{name}/layer_norm")
        states.append(x := y)
    if decode is not None:
        queries = states[-2] + decode[: len(x)]
        for _ in range(2):
            queries = layer(f"encoder/layer_{config.num_layers - 1}", states[-2], queries)
        states.append(queries)
    return states


@pytest.mark.parametrize("changes", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_equals_the_papers_formulas(changes):
    encoder, inputs = make(**changes), batch()
    weights = {n: np.asarray(v.numpy(), "float64") for n, v in named_variables(encoder).items()}
    positions = np.random.default_rng(2).normal(size=(40, 24)).astype("float32")
    outputs = encoder(inputs, return_hidden_states=True, decoder_positions=positions)
    actual = [*outputs["hidden_states"], outputs["decoded_output"]]
    for row, length in enumerate(inputs["padding_mask"].sum(1)):
        ids, segments = (inputs[n][row, :length] for n in ("token_ids", "segment_ids"))
        expected = encode(encoder.config, weights, ids, segments, positions)
        for ours, paper in zip(actual, expected, strict=True):
            np.testing.assert_allclose(ours[row, :length], paper, rtol=0, atol=1e-5)


def test_enhanced_mask_decoder():
    model, inputs = kb.MaskedLanguageModel(make(**CONFIGURATIONS["v3"]), enhanced=True), batch()
    generator = np.random.default_rng(3)
    for variable in model.weights:
        variable.assign(generator.normal(0.0, 0.5, variable.shape))
    weights = {n: np.asarray(v.numpy(), "float64") for n, v in named_variables(model).items()}
    decoded = np.zeros((3, 33, 24), "float32")
    for row, length in enumerate(inputs["padding_mask"].sum(1)):
        ids, segments = (inputs[n][row, :length] for n in ("token_ids", "segment_ids"))
        positions = weights["masked_lm/position_embedding"]
        decoded[row, :length] = encode(model.config, weights, ids, segments, positions)[-1]
    expected = model.head(decoded, model.encoder.embeddings.token_embedding)
    tokens = inputs["padding_mask"] == 1
    np.testing.assert_allclose(model(inputs).numpy()[tokens], expected.numpy()[tokens], atol=2e-5)
    with pytest.raises(kb.InputError, match="has 41 tokens, but the mask decoder has 40"):
        model(batch((41,)))
    with pytest.raises(kb.InputError, match="set position_input to false"):
        kb.MaskedLanguageModel(make(**CONFIGURATIONS["absolute positions"]), enhanced=True)
    without = kb.MaskedLanguageModel(model.encoder)
    assert not np.allclose(without(inputs).numpy()[tokens], expected.numpy()[tokens], atol=0.1)


@pytest.mark.parametrize("policy", others_swept(["mixed_float16", "mixed_bfloat16"]))
@pytest.mark.parametrize("name", others_swept(["v2", "v1"]))
def test_mixed_precision_trains_with_finite_gradients(name, policy):
    config = kb.EncoderConfig(**SMALL | CONFIGURATIONS[name], initializer_range=0.2)
    model = kb.MaskedLanguageModel(kb.Encoder(config, dtype=policy), enhanced=True)
    inputs = batch()
    for weight in model.weights:
        assert weight.dtype == "float32"

    @tf.function(jit_compile=True)
    def gradients(inputs):
        with tf.GradientTape() as tape:
            logits = model(inputs, training=True)
            loss = tf.reduce_mean(
                keras.losses.sparse_categorical_crossentropy(
                    inputs["token_ids"], logits, from_logits=True
                )
            )
        return loss, tape.gradient(loss, [weight.value for weight in model.trainable_weights])

    loss, found = gradients({n: tf.constant(x) for n, x in inputs.items()})
    assert np.isfinite(loss)
    for weight, gradient in zip(model.trainable_weights, found, strict=True):
        assert isinstance(gradient, tf.Tensor)  # and not a list of rows
        assert np.isfinite(gradient).all(), weight.path
        assert np.any(gradient != 0) or weight.path.endswith("key/bias"), weight.path


def test_xla_and_eager_agree_on_outputs_and_gradients():
    encoder, inputs = make(**CONFIGURATIONS["v2"]), batch()
    weights = [weight.value for weight in encoder.trainable_weights]
    target = tf.random.stateless_normal((3, 33, 24), (1, 2))

    def step(inputs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(target * encoder(inputs)["sequence_output"])
        return loss, tape.gradient(loss, weights)

    inputs = {n: tf.constant(x) for n, x in inputs.items()}
    results = step(inputs), tf.function(step, jit_compile=True)(inputs)
    for eager, compiled in zip(*map(tf.nest.flatten, results), strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-3, atol=1e-5)


def test_any_length_and_a_changing_one():
    """The table has no end: what is farther away than its last row has that row."""
    encoder = make(**CONFIGURATIONS["v3"], max_positions=8)
    run = tf.function(lambda ids: encoder({"token_ids": ids})["sequence_output"])
    run = run.get_concrete_function(tf.TensorSpec((None, None), tf.int32))
    weights = {n: np.asarray(v.numpy(), "float64") for n, v in named_variables(encoder).items()}
    for length in (1, 2, 50):
        ids = batch((length,))["token_ids"]
        expected = encode(encoder.config, weights, ids[0], None)[-1]
        np.testing.assert_allclose(run(tf.constant(ids))[0], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"convolution_size": 4}, "convolution_size is 4, but must be an odd number"),
        ({"relative_positions": 9, "position_buckets": 5}, "position_buckets is 5.*even"),
        ({"position_terms": ("c2c",)}, "position_terms is .*c2p"),
    ],
)
def test_what_is_impossible_is_refused(changes, message):
    with pytest.raises(kb.InputError, match=message):
        kb.EncoderConfig(**SMALL | changes)


def test_keras_file_and_native_format(tmp_path):
    model, inputs = kb.MaskedLanguageModel(make(**CONFIGURATIONS["v2"]), enhanced=True), batch()
    model.save(tmp_path / "m.keras")
    kb.save(model, tmp_path / "native")
    for again in (keras.models.load_model(tmp_path / "m.keras"), kb.load(tmp_path / "native")):
        np.testing.assert_array_equal(again(inputs), model(inputs))


@pytest.mark.slow
def test_jax(tmp_path):
    model = kb.PretrainingModel(make(**CONFIGURATIONS["v2"], pooler=True))
    inputs = batch()
    outputs, tokens = outputs_on_jax(model, inputs, tmp_path), inputs["padding_mask"] == 1
    expected = model(inputs)
    np.testing.assert_allclose(outputs["nsp_logits"], expected["nsp_logits"], atol=2e-5)
    logits = expected["mlm_logits"].numpy()
    np.testing.assert_allclose(outputs["mlm_logits"][tokens], logits[tokens], atol=2e-5)
