"""Functions with gradients of their own equal the formulas, differentiated in float64."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert.layers import fused
from keras_bert.layers.configured import ACTIVATION_FUNCTIONS
from keras_bert.pretraining.objectives.distillation import DistillationModel
from tests.layers.test_encoder import SMALL, padded_batch
from tests.marks import others_swept

ROWS, WIDTH, RATE = 64, 48, 0.25
SIZES = {"known sizes": True, "unknown sizes": False}  # with XLA, and without


def random(*shape, seed=0):
    return tf.constant(np.random.default_rng(seed).normal(size=shape), tf.float32)


def gradients(function, inputs, known=True):
    """Returns the output of a function and the gradients of a weighted sum of it."""

    def run(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            output = function(*inputs)
            weights = tf.cast(tf.range(tf.size(output)) % 7, output.dtype)
            total = tf.reduce_sum(tf.reshape(weights, tf.shape(output)) * output)
        return output, tape.gradient(total, inputs)

    # A size of 1 is that of a bias, which is known.
    shapes = [x.shape if known else [1 if n == 1 else None for n in x.shape] for x in inputs]
    specs = [tf.TensorSpec(shape, x.dtype) for shape, x in zip(shapes, inputs, strict=True)]
    output, found = tf.function(run, input_signature=specs)(*inputs)
    return [output, *found]


def assert_close(found, expected, tolerance=2e-5):
    """Compares with the largest value of each array, or 10⁻³ of the largest of all."""
    scales = [float(tf.reduce_max(tf.abs(other))) for other in expected]
    for one, other, own in zip(found, expected, scales, strict=True):
        scale = max(own, 1e-3 * max(scales))
        one, other = (tf.cast(x, tf.float64).numpy() for x in (one, other))
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * scale)


def in_float64(inputs):
    return [tf.cast(x, tf.float64) for x in inputs]


def factors_of(dropout, like):
    """Returns dropout's next factors, 0 or 1 / (1 - rate), and sets its state back."""
    state = tf.identity(dropout.seed_generator.state.value)
    (mask,), keep_rate = fused._draw(dropout, like)
    dropout.seed_generator.state.assign(state)
    return tf.cast(mask, tf.float64) / keep_rate


@pytest.mark.parametrize("known", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("activation", [None, *ACTIVATION_FUNCTIONS])
def test_project(activation, known):
    function = ACTIVATION_FUNCTIONS.get(activation)
    layer = keras.layers.Dense(WIDTH, activation=function, bias_initializer="normal")
    layer.build((None, 24))
    x = random(ROWS, 24)
    kernel, bias = in_float64([layer.kernel.value, layer.bias.value])

    def expected(x):
        y = x @ kernel + bias
        return y if function is None else function(y)

    found = gradients(lambda x: fused.project(layer, x, True), [x], known)
    assert_close(found, gradients(expected, in_float64([x])))


def test_gradients_of_kernel_and_bias():
    layer = keras.layers.Dense(WIDTH, activation=ACTIVATION_FUNCTIONS["gelu"])
    layer.build((None, 24))
    x, variables = random(ROWS, 24), [layer.kernel.value, layer.bias.value]

    def of(call):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(call(x) ** 2)
        return tape.gradient(total, variables)

    assert_close(of(lambda x: fused.project(layer, x, True)), of(layer))


@pytest.mark.parametrize("activation", [None, "gelu"])
def test_the_gradient_of_a_bias_is_as_exact_as_its_dtype(activation):
    function = ACTIVATION_FUNCTIONS.get(activation)
    layer = keras.layers.Dense(WIDTH, activation=function, dtype="bfloat16")
    layer.build((None, 24))
    x, weights = (tf.cast(random(2048, size, seed=size), tf.bfloat16) for size in (24, WIDTH))

    def gradient(call, *inputs):
        x, weights, bias = inputs
        with tf.GradientTape() as tape:
            tape.watch(bias)
            output = call(x, bias)
        return tf.cast(tape.gradient(output, bias, weights), tf.float64)

    def formula(x, bias):
        y = x @ tf.cast(layer.kernel.value, x.dtype) + bias
        return function(y) if function else y

    inputs = x, weights, layer.bias.value
    found = gradient(lambda x, _: fused.project(layer, x, True), *inputs)
    expected = gradient(formula, *in_float64(inputs))
    assert tf.norm(found - expected) < 5e-3 * tf.norm(expected)


@pytest.mark.parametrize("known", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("rate", [0.0, RATE])
def test_add_and_normalize(rate, known):
    dropout = keras.layers.Dropout(rate, seed=5)
    norm = keras.layers.LayerNormalization(epsilon=1e-3)
    norm.build((None, WIDTH))
    x, update, gamma, beta = inputs = (
        random(ROWS, WIDTH),
        random(ROWS, WIDTH, seed=1),
        1 + random(WIDTH, seed=2),
        random(WIDTH, seed=3),
    )
    norm.gamma.assign(gamma)
    norm.beta.assign(beta)
    factors = factors_of(dropout, x) if rate else 1.0

    def expected(x, update, gamma, beta):
        x = x + update * factors
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        return (x - mean) / tf.sqrt(variance + 1e-3) * gamma + beta

    found = gradients(
        lambda x, update: fused.add_and_normalize(x, update, dropout, norm, True),
        [x, update],
        known,
    )
    wanted = gradients(expected, in_float64(inputs))
    assert_close(found, wanted[:3])
    if rate:
        return  # the next call would draw another mask
    with tf.GradientTape() as tape:
        output = fused.add_and_normalize(x, update, dropout, norm, True)
        weights = tf.cast(tf.range(tf.size(output)) % 7, tf.float32)
        total = tf.reduce_sum(tf.reshape(weights, output.shape) * output)
    assert_close(tape.gradient(total, [norm.gamma.value, norm.beta.value]), wanted[3:])


@pytest.mark.parametrize("known", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("rate", [0.0, RATE])
@pytest.mark.parametrize("rows", [1, 7])
def test_softmax_and_dropout(rows, rate, known):
    dropout = keras.layers.Dropout(rate, seed=5)
    logits, bias = random(3, 2, 7, 7), random(3, 1, rows, 7, seed=1)
    factors = factors_of(dropout, logits) if rate else 1.0
    found = gradients(
        lambda x, bias: fused.softmax_and_dropout(x, bias, dropout, False, True)[0],
        [logits, bias],
        known,
    )
    wanted = gradients(
        lambda x, bias: tf.nn.softmax(x + bias) * factors, in_float64([logits, bias])
    )
    assert_close(found, wanted)


def test_masks_are_independent_and_have_the_rate_of_dropout():
    dropout, x = keras.layers.Dropout(0.1, seed=3), tf.zeros([1001, 333])
    (first,), keep_rate = fused._draw(dropout, x)
    (second,), _ = fused._draw(dropout, x)
    count = tf.size(x).numpy()
    for mask in (first, second):
        found = tf.reduce_mean(tf.cast(mask, tf.float64)).numpy()
        assert abs(found - 0.9) < 5 * (0.09 / count) ** 0.5 + 1e-5
    assert abs(keep_rate - 0.9) < 1e-5
    flat, half = tf.reshape(first, [-1]), count // 2
    pairs = {
        "two draws": (first, second),
        "neighbors": (flat[:-1], flat[1:]),
        "halves": (flat[:half], flat[-half:]),
    }
    for name, (one, other) in pairs.items():
        both = tf.reduce_mean(tf.cast(one & other, tf.float64)).numpy()
        # Neighbors overlap, so three times the variance of independent pairs is allowed.
        assert abs(both - 0.81) < 5 * (3 * 0.81 * 0.19 / half) ** 0.5, name


@pytest.mark.parametrize("rate", [1e-6, 0.999999, 1.0])
def test_extreme_rates(rate):
    dropout, norm = keras.layers.Dropout(rate, seed=3), keras.layers.LayerNormalization()
    x = random(4, 5)
    norm.build(x.shape)
    found = fused.add_and_normalize(x, random(4, 5, seed=1), dropout, norm, True)
    expected = x + random(4, 5, seed=1) if rate < 0.5 else x  # almost surely
    np.testing.assert_allclose(found, norm(expected), atol=1e-4)


CONFIGURATIONS = {
    "BERT": {},
    "ALBERT": {"layer_groups": 1, "activation": "gelu_tanh"},
    "DeBERTa": {"relative_positions": 8, "position_buckets": 4, "convolution_size": 3},
}


@pytest.mark.parametrize("changes", others_swept(CONFIGURATIONS.values(), 1), ids=CONFIGURATIONS)
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "float64"])
def test_an_encoder_trains_as_with_plain_operations(changes, dtype, monkeypatch):
    """Same outputs and gradients of all weights, with and without known sizes."""
    keras.utils.set_random_seed(0)
    quiet = {"hidden_dropout": 0.0, "attention_dropout": 0.0}  # plain operations draw other masks
    encoder = kb.Encoder(kb.EncoderConfig(**SMALL | quiet | changes), dtype=dtype)
    batch = {name: tf.constant(x) for name, x in padded_batch().items()}
    variables = [v.value for v in encoder.trainable_variables if "pooler" not in v.path]

    def run(known):
        shape = batch["token_ids"].shape if known else [None, None]

        @tf.function(input_signature=[{name: tf.TensorSpec(shape, tf.int32) for name in batch}])
        def step(batch):
            with tf.GradientTape() as tape:
                output = encoder(batch, training=True)["sequence_output"]
                total = tf.reduce_sum(tf.cast(output, encoder.variable_dtype)[..., :5] ** 3)
            found = tape.gradient(total, variables)
            return [output, *map(tf.convert_to_tensor, found)]

        return step(batch)

    found = [run(True), run(False)]
    monkeypatch.setattr(fused, "_applies", lambda *arguments: False)
    expected = run(True)
    tolerance = {"float32": 1e-4, "mixed_bfloat16": 0.1, "float64": 1e-10}[dtype]
    for each in found:
        assert_close(each, expected, tolerance)


def distilled(encoder):
    teacher = kb.MaskedLanguageModel(kb.Encoder(encoder.config, dtype=encoder.dtype_policy))
    return DistillationModel(kb.MaskedLanguageModel(encoder), teacher, every_token=True)


PROJECTIONS = [{"units": 8, "activation": "tanh", "use_bias": True}]
TASKS = {
    "replaced tokens": ({}, kb.ReplacedTokenDetector),
    "tags": ({}, lambda encoder: kb.TokenClassifier(encoder, num_labels=2)),
    "masked tokens": ({}, kb.MaskedLanguageModel),
    "masked tokens and pairs": ({}, kb.PretrainingModel),
    "distillation": ({}, distilled),
    "late pooling": (
        {"classifier_activation": "gelu"},
        lambda encoder: kb.SequenceClassifier(encoder, 2, pooling="late"),
    ),
    "embedder": (
        {},
        lambda encoder: kb.TextEmbedder(encoder, projections=PROJECTIONS, normalize=False),
    ),
    "factorized embedding": ({"embedding_size": 8}, kb.ReplacedTokenDetector),
    "convolution": (
        {"convolution_size": 3, "relative_positions": 4, "position_input": False},
        kb.ReplacedTokenDetector,
    ),
    "mask decoder": (
        {"relative_positions": 4, "position_input": False},
        lambda encoder: kb.MaskedLanguageModel(encoder, enhanced=True),
    ),
}


@pytest.mark.parametrize(("changes", "task"), TASKS.values(), ids=TASKS)
def test_gradients_of_biases_and_positions_in_bfloat16(changes, task):
    """Most gradients have the same sign here, and many small numbers are lost in bfloat16.

    `stateless_call` is what pretraining calls. There, layers do not learn of training from Keras.
    """
    quiet = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "classifier_dropout": 0.0}
    config = kb.EncoderConfig(**SMALL | quiet | changes)
    ids = np.random.default_rng(0).integers(1, SMALL["vocabulary_size"], (1024, 4))
    batch = {"token_ids": ids, "masked_positions": np.tile(np.arange(4), (1024, 1))}

    def gradients(dtype):
        keras.utils.set_random_seed(0)
        model = task(kb.Encoder(config, dtype=dtype))
        if getattr(model, "enhanced", False):  # the decoder looks up the positions of documents
            batch["document_ids"] = np.ones_like(ids)
        weights = [tf.convert_to_tensor(v.value) for v in model.trainable_variables]
        with tf.GradientTape() as tape:
            tape.watch(weights)
            others = [v.value for v in model.non_trainable_variables]
            outputs, _ = model.stateless_call(weights, others, batch, training=True)
            outputs = [tf.cast(x, tf.float32) for x in tf.nest.flatten(outputs)]
            total = tf.add_n([tf.reduce_mean(x**2 + x) for x in outputs])
        pairs = zip(model.trainable_variables, tape.gradient(total, weights), strict=True)
        names = ("bias", "position_embedding")
        return {v.path: g for v, g in pairs if v.name in names and g is not None}

    exact, found = gradients("float32"), gradients("mixed_bfloat16")
    sizes = {name: float(tf.norm(gradient)) for name, gradient in exact.items()}
    floor = 1e-2 * max(sizes.values())
    errors = {
        name: float(tf.norm(found[name] - exact[name])) / max(size, floor)
        for name, size in sizes.items()
    }
    assert {name: error for name, error in errors.items() if error > 0.1} == {}


@pytest.mark.parametrize(("training", "known"), [(True, True), (True, False), (False, True)])
def test_xla_compiles_what_trains_with_known_sizes(training, known):
    encoder = kb.Encoder(kb.EncoderConfig(**SMALL))
    shape = [3, 9] if known else [None, None]
    spec = {"token_ids": tf.TensorSpec(shape, tf.int32)}
    function = tf.function(lambda x: encoder(x, training=training)["sequence_output"])
    graph = function.get_concrete_function(spec).graph
    compiled = [op for op in graph.get_operations() if "_XlaMustCompile" in op.node_def.attr]
    assert bool(compiled) == (training and known)
    own = [op for op in graph.get_operations() if op.type == "IdentityN"]
    assert bool(own) == training


def test_layers_share_compiled_functions():
    encoder = kb.Encoder(kb.EncoderConfig(**SMALL, pooler=False))
    function = tf.function(lambda x: encoder(x, training=True)["sequence_output"])
    spec = {"token_ids": tf.TensorSpec([2, 5], tf.int32)}
    graph = function.get_concrete_function(spec).graph
    assert encoder.config.num_layers == 3
    assert len(graph._keras_bert_compiled) == 3, "activation, normalization and softmax"


def test_attentions_on_request_change_no_mask():
    keras.utils.set_random_seed(0)
    encoder = kb.Encoder(kb.EncoderConfig(**SMALL))
    states = [part.seed_generator.state for part in encoder._flatten_layers() if has_seed(part)]
    values, outputs = [tf.identity(state.value) for state in states], []
    for attentions in (False, True):
        for state, value in zip(states, values, strict=True):
            state.assign(value)
        outputs.append(encoder(padded_batch(), training=True, return_attentions=attentions))
    found, expected = (each["sequence_output"] for each in outputs)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def has_seed(layer):
    return hasattr(layer, "seed_generator")


def test_what_layers_do_beside_their_formula_is_kept():
    encoder = kb.Encoder(kb.EncoderConfig(**SMALL))
    encoder.encoder_layers[0].intermediate.activity_regularizer = keras.regularizers.L2(0.1)
    encoder(padded_batch(), training=True)
    assert len(encoder.losses) == 1


def test_a_second_derivative_says_that_training_has_none():
    layer = keras.layers.Dense(4, activation=ACTIVATION_FUNCTIONS["gelu"])
    layer.build((None, 4))
    x = random(3, 4)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = fused.project(layer, x, True)
        first = tape.gradient(y, x)
    with pytest.raises(LookupError, match="training=False"):
        outer.gradient(first, x)


@pytest.mark.parametrize(
    ("dtype", "tolerance", "rows"),
    others_swept(
        [
            ("float32", 2e-5, False),
            ("float16", 0.004, True),
            ("float64", 1e-12, True),
            ("bfloat16", 0.03, False),
        ],
        quick=2,
    ),
)
def test_attend_in_parts(dtype, tolerance, rows):
    """Two parts; one query attends to nothing. With `rows`, each query has a mask of its own."""
    query, key, value = (tf.cast(random(2, 3, 300, 8, seed=n), dtype) for n in range(3))
    mask = np.random.default_rng(3).random((2, 1, 300 if rows else 1, 300)) < 0.5
    mask[0, :, 0] = False
    bias = np.where(mask, 0.0, -100.0)

    def at_once(query, key, value):
        return tf.matmul(tf.nn.softmax(tf.matmul(query, key, transpose_b=True) + bias), value)

    def in_parts(query, key, value):
        own = tf.constant(bias, tf.float64 if dtype == "float64" else tf.float32)
        return fused.attend_in_parts(query, key, value, own, training=True)

    expected = gradients(at_once, in_float64((query, key, value)))
    for function in (in_parts, tf.function(in_parts, jit_compile=True)):
        assert_close(gradients(function, (query, key, value)), expected, tolerance)
    equal = in_parts(query, key, tf.fill(value.shape, tf.constant(300, dtype)))
    np.testing.assert_allclose(tf.cast(equal, tf.float64), 300, rtol=tolerance)
