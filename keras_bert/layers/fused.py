"""Parts of an encoder layer that training on TensorFlow computes in few passes over memory.

Each operation of TensorFlow reads and writes memory once. On processors with matrix units, GELU and
its gradient took five times as long in bfloat16 as the product before them. So the functions here
have gradients of their own, which keep few values. If all sizes are known, XLA compiles them for
the processor. In batches of different lengths, XLA would compile each length anew.

In inference and on other backends, the functions are plain operations of Keras, except that
SavedModels attend to long texts in a loop; see `attend_to_any_length`. JAX compiles these
operations anyway. TensorFlow's graph optimizer (Grappler) and the converters to TFLite and ONNX
recognize them. SavedModels in bfloat16 have other forms of layer normalization and attention; see
`with_fusible_forms`.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

if keras.backend.backend() == "tensorflow":
    import tensorflow as tf

_QUERIES = 256  # queries; for a text of 8,192 tokens, their logits take 8 MB
_GROUPS = 2  # of heads, which are computed at the same time; on two cores, faster than 1 or 4
_HIGHEST_RATE = 1 - 2**-16  # of dropout; with 16 random bits, higher rates would be 1


def project(layer: keras.layers.Dense, x: Any, training: bool | None) -> Any:
    """Applies a dense layer. The gradient of its bias adds up in float32.

    TensorFlow would fuse the product and the bias, and in bfloat16, the fused kernel does not use
    matrix units (TensorFlow 2.21).

    Args:
        layer: a dense layer that is built, with any activation.
        x: `[..., I]`.
        training: whether there will be a gradient.

    Returns:
        `[..., O]`.
    """
    quantized = layer.quantization_mode is not None
    if layer.bias is None or quantized or not _applies(training, x, layer):
        return layer(x)
    if len(x.shape) > 2:
        rows = project(layer, ops.reshape(x, (-1, x.shape[-1])), training)
        return ops.reshape(rows, (*ops.shape(x)[:-1], layer.units))
    product, bias = ops.matmul(x, layer.kernel), tf.convert_to_tensor(layer.bias)
    linear, options = layer.activation is keras.activations.linear, {"activation": layer.activation}

    def differentiable(product: Any, bias: Any) -> tuple[Any, Callable]:
        def gradients(upstream: Any) -> list[Any]:
            inputs = upstream, product, bias
            gradient = upstream if linear else _run(_gradient_of_activate, *inputs, **options)
            return [gradient, _sum_of_rows(gradient)]

        if not linear:
            return _run(_activate, product, bias, **options), gradients
        image = tf.expand_dims(product, 0)  # which TensorFlow does not fuse with the bias
        return tf.squeeze(tf.nn.bias_add(image, bias), 0), gradients

    return _with_gradient(differentiable, product, bias)


def add_and_normalize(
    x: Any,
    update: Any,
    dropout: keras.layers.Dropout,
    norm: keras.layers.Layer,
    training: bool | None,
) -> Any:
    """Returns norm(x + dropout(update)).

    Args:
        x: `[M, H]`.
        update: `[M, H]`.
        dropout: the dropout layer.
        norm: a layer normalization, or another layer.
        training: whether dropout is active, and there will be a gradient.

    Returns:
        `[M, H]`.
    """
    has_bias = getattr(norm, "center", False)
    if not (has_bias and _applies(training, x, dropout, norm)):
        update = dropout(update, training=training)
        fusible = has_bias and has_fusible_forms()
        return _fusible_normalization(x, update, norm) if fusible else norm(x + update)
    mask, keep_rate = _draw(dropout, x)

    def differentiable(x: Any, update: Any, gamma: Any, beta: Any) -> tuple[Any, Callable]:
        settings = {"epsilon": norm.epsilon, "keep_rate": keep_rate}
        output, *kept = _run(_normalize, x, update, gamma, beta, *mask, **settings)
        return output, lambda upstream: _run(
            _gradients_of_normalize, upstream, *kept, gamma, *mask, keep_rate=keep_rate
        )

    gamma, beta = tf.convert_to_tensor(norm.gamma), tf.convert_to_tensor(norm.beta)
    return _with_gradient(differentiable, x, update, gamma, beta)


def softmax_and_dropout(
    logits: Any,
    bias: Any,
    dropout: keras.layers.Dropout,
    need_probabilities: bool,
    training: bool | None,
) -> tuple[Any, Any]:
    """Returns dropout(softmax(logits + bias)) and softmax(logits + bias).

    Args:
        logits: `[B, N, T, T]`, or `[B * K, N, W, 3W]` for blocks of a window.
        bias: an array that NumPy would broadcast to the logits' shape.
        dropout: the dropout layer.
        need_probabilities: whether to return the second result, instead of None.
        training: whether dropout is active, and there will be a gradient.

    Returns:
        Two tensors `[B, N, T, T]` with the dtype of the logits.
    """
    # Half precision is too coarse for the sum in the softmax, except with oneDNN. Keras has cast
    # the bias, too, because it casts all inputs of a layer.
    precise = "float64" if logits.dtype == "float64" else "float32"
    bias = ops.cast(bias, precise)
    applies = _applies(training, logits, dropout)
    if need_probabilities or not applies:
        if has_fusible_forms():  # oneDNN's softmax computes in float32
            probabilities = ops.softmax(logits + ops.cast(bias, logits.dtype), axis=-1)
        else:
            probabilities = ops.softmax(ops.cast(logits, precise) + bias, axis=-1)
            probabilities = ops.cast(probabilities, logits.dtype)
        if not applies:
            dropped = dropout(probabilities, training=training)
            return dropped, probabilities if need_probabilities else None
    mask, keep_rate = _draw(dropout, logits)
    if need_probabilities:  # which may have a gradient of their own
        return _drop(probabilities, mask, keep_rate), probabilities

    def differentiable(logits: Any, bias: Any) -> tuple[Any, Callable]:
        output, probabilities = _run(_softmax, logits, bias, *mask, keep_rate=keep_rate)

        def gradients(upstream: Any) -> list[Any]:
            saved = upstream, probabilities, *mask
            gradient = _run(_gradient_of_softmax, *saved, keep_rate=keep_rate)
            axes = [axis for axis in (1, 2) if bias.shape[axis] == 1]
            return [gradient, tf.cast(tf.reduce_sum(gradient, axes, keepdims=True), bias.dtype)]

        return output, gradients

    return _with_gradient(differentiable, logits, tf.convert_to_tensor(bias)), None


def attend_in_parts(query: Any, key: Any, value: Any, bias: Any, training: bool) -> Any:
    """Returns softmax(QKᵀ + bias) V, computed for 256 queries at a time to save memory.

    On processors, each head is computed by itself, so that its logits stay in the cache. If a GPU
    or a TPU is visible when the graph is made, all heads of a text are computed at once. The
    backward pass computes the probabilities again (Dao et al. 2022,
    https://arxiv.org/abs/2205.14135, section 3.1). Only for TensorFlow, without dropout.

    Args:
        query: `[B, N, T, D]`.
        key: `[B, N, T, D]`.
        value: `[B, N, T, D]`.
        bias: `[B, 1, 1, T]` or `[B, 1, T, T]`, without a gradient.
        training: whether there will be a gradient.

    Returns:
        `[B, N, T, D]`.
    """
    heads, dtype = query.shape[1], query.dtype
    length = query.shape[2] or tf.shape(query)[2]
    count = -(-length // _QUERIES)  # of parts, K; a part has P queries
    on_processor = all(device.device_type == "CPU" for device in tf.config.get_visible_devices())
    group = 1 if on_processor else heads  # number of heads at a time, G
    padding = [(0, 0), (0, count * _QUERIES - length), (0, 0)]
    rows = _precise(tf.convert_to_tensor(bias))[:, 0]
    has_rows = bias.shape[2] != 1
    rows = tf.pad(rows, padding) if has_rows else rows

    def in_parts(x: Any) -> Any:  # [G, T, D] to [K, G, P, D]
        x = tf.reshape(tf.pad(x, padding), [group, count, _QUERIES, x.shape[2]])
        return tf.transpose(x, (1, 0, 2, 3))

    def joined(parts: Any) -> Any:  # [K, G, P, D] to [G, T, D]
        x = tf.transpose(parts, (1, 0, 2, 3))
        return tf.reshape(x, [group, count * _QUERIES, x.shape[3]])[:, :length]

    def bias_of(index: Any, part: Any) -> Any:  # [1, P, T] or [1, 1, T]
        begin = [index * group // heads, part * _QUERIES if has_rows else 0, 0]
        return tf.slice(rows, begin, [1, _QUERIES if has_rows else 1, -1])

    def for_each_group(function: Callable, *tensors: Any, outputs: Any) -> Any:
        """Calls a function of an index and tensors `[G, T, D]` of tensors `[B, N, T, D]`."""
        groups = [tf.reshape(x, [-1, group, length, x.shape[3]]) for x in tensors]
        found = tf.map_fn(
            lambda inputs: function(*inputs),
            (tf.range(tf.shape(groups[0])[0]), *groups),
            fn_output_signature=outputs,
            parallel_iterations=_GROUPS if tf.inside_function() else 1,
        )
        return tf.nest.map_structure(
            lambda x: tf.reshape(x, [-1, heads, length, x.shape[3]]), found
        )

    def attend(index: Any, query: Any, key: Any, value: Any) -> Any:
        keys = tf.linalg.matrix_transpose(key)

        def of_part(inputs: tuple[Any, Any]) -> Any:
            part, queries = inputs
            p = _run(_probabilities, tf.matmul(queries, keys), bias_of(index, part))
            return tf.matmul(p, value)

        inputs = tf.range(count), in_parts(query)
        return joined(tf.map_fn(of_part, inputs, fn_output_signature=dtype, parallel_iterations=1))

    def gradients_of_group(index: Any, query: Any, key: Any, value: Any, upstream: Any) -> Any:
        keys, values = tf.linalg.matrix_transpose(key), tf.linalg.matrix_transpose(value)
        query_parts, upstream_parts = in_parts(query), in_parts(upstream)

        def step(part: Any, found: Any, key_gradient: Any, value_gradient: Any) -> Any:
            queries, own = query_parts[part], upstream_parts[part]
            logits, p_gradient = tf.matmul(queries, keys), tf.matmul(own, values)
            p, logit_gradient = _run(
                _probabilities_and_gradient, logits, bias_of(index, part), p_gradient
            )
            return (
                part + 1,
                found.write(part, tf.matmul(logit_gradient, key)),
                # products with few rows are faster than their transposes
                key_gradient + tf.matmul(queries, logit_gradient, transpose_a=True),
                value_gradient + tf.matmul(own, p, transpose_a=True),
            )

        found, *others = tf.while_loop(
            lambda part, *_: part < count,
            step,
            (0, tf.TensorArray(dtype, count), tf.zeros_like(keys), tf.zeros_like(values)),
            parallel_iterations=1,
        )[1:]
        return joined(found.stack()), *map(tf.linalg.matrix_transpose, others)

    def forward(query: Any, key: Any, value: Any) -> Any:
        return for_each_group(attend, query, key, value, outputs=dtype)

    def differentiable(query: Any, key: Any, value: Any) -> tuple[Any, Callable]:
        def gradients(upstream: Any) -> Any:
            tensors = query, key, value, upstream
            return for_each_group(gradients_of_group, *tensors, outputs=(dtype,) * 3)

        return forward(query, key, value), gradients

    if not training:
        return forward(query, key, value)
    return _with_gradient(differentiable, query, key, value)


def attend_to_any_length(attend: Callable, longest: int, *tensors: Any) -> Any:
    """Returns `attend(*tensors)`, or if T is more than `longest`, `attend_in_parts`.

    The graph decides when it runs. Only for inference on TensorFlow.

    Args:
        attend: function of the tensors.
        longest: largest T for which `attend` is called.
        *tensors: query, key, value and bias, as in `attend_in_parts`.

    Returns:
        `[B, N, T, D]`.
    """
    batch, _, length, _ = tf.unstack(tf.shape(tensors[0]))
    return tf.cond(
        (length > longest) & (batch > 0),  # a loop over no texts would not know the output's shape
        lambda: attend_in_parts(*tensors, training=False),
        lambda: attend(*tensors),
    )


def with_any_length() -> contextlib.AbstractContextManager[None]:
    """Makes new graphs in the block attend in parts to long texts, even if T is not known.

    Only for SavedModels. The converters to TFLite and ONNX would have to convert the loop.
    """
    return _on(_allows_any_length)


def allows_any_length() -> bool:
    """Returns whether the block of `with_any_length` is active."""
    return _allows_any_length.get()


def with_fusible_forms() -> contextlib.AbstractContextManager[None]:
    """Makes new graphs in the block compute in forms that TensorFlow's graph optimizer fuses.

    With oneDNN, one operation replaces the nine operations of Keras' layer normalization, and takes
    a quarter of their time. Another one replaces the scale, the product and the bias of attention.
    Without oneDNN, this normalization takes three times as long as Keras', and the sum of a softmax
    of 512 random logits differed from 1 by up to 0.015. tf.keras 2 had this form of the
    normalization. The graphs have no gradient.
    """
    return _on(_has_fusible_forms)


def has_fusible_forms() -> bool:
    """Returns whether the block of `with_fusible_forms` is active."""
    return _has_fusible_forms.get()


_allows_any_length = contextvars.ContextVar("_allows_any_length", default=False)
_has_fusible_forms = contextvars.ContextVar("_has_fusible_forms", default=False)


@contextlib.contextmanager
def _on(switch: contextvars.ContextVar[bool]) -> Iterator[None]:
    """Turns a switch on in the block."""
    token = switch.set(True)
    try:
        yield
    finally:
        switch.reset(token)


def _fusible_normalization(x: Any, update: Any, norm: keras.layers.LayerNormalization) -> Any:
    """Returns LayerNorm(x + update) `[M, H]`, as a batch normalization of an image of M channels.

    oneDNN's normalization in bfloat16 fails on processors without AVX-512, so the sum is float32. A
    cast of the sum would keep the optimizer from finding the form.
    """
    total = tf.cast(x, tf.float32) + tf.cast(update, tf.float32)
    rows, size = tf.unstack(tf.shape(total))
    normalized = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(total, [1, rows, size, 1]),
        scale=tf.fill([rows], 1.0),
        offset=tf.fill([rows], 0.0),
        mean=tf.zeros([0]),
        variance=tf.zeros([0]),
        epsilon=norm.epsilon,
        data_format="NCHW",
        is_training=True,
    )
    gamma, beta = (tf.cast(weight, tf.float32) for weight in (norm.gamma, norm.beta))
    return tf.cast(tf.reshape(normalized.y, tf.shape(total)) * gamma + beta, x.dtype)


def _applies(training: bool | None, x: Any, *layers: keras.layers.Layer) -> bool:
    """Returns whether the functions with own gradients do all that the layers would do."""
    return (
        bool(training)
        and keras.backend.backend() == "tensorflow"
        and all(
            type(layer)
            in (keras.layers.Dense, keras.layers.Dropout, keras.layers.LayerNormalization)
            and layer.compute_dtype == keras.backend.standardize_dtype(x.dtype)
            and layer.activity_regularizer is None
            and getattr(layer, "noise_shape", None) is None
            and getattr(layer, "rate", 0.0) <= _HIGHEST_RATE
            for layer in layers
        )
    )


def _draw(dropout: keras.layers.Dropout, x: Any) -> tuple[tuple[Any, ...], float]:
    """Returns a mask, true at values to keep, as a tuple of one, and the ratio of values to keep.

    Without dropout, the tuple is empty. Keras' own mask takes twice as many random bits. With 16
    bits, the rate differs by less than 10⁻⁵.
    """
    if dropout.rate == 0:
        return (), 1.0
    count = tf.size(x) if x.shape.num_elements() is None else x.shape.num_elements()
    seed = tf.cast(dropout.seed_generator.next(), tf.int32)
    words = tf.random.stateless_uniform([(count + 1) // 2], seed, None, None, tf.uint32)
    bits = tf.reshape(tf.bitcast(words, tf.uint16), [-1])[:count]
    threshold = round(dropout.rate * 2**16)
    mask = tf.reshape(bits, tf.shape(x)) >= tf.constant(threshold, tf.uint16)
    return (tf.ensure_shape(mask, x.shape),), 1 - threshold / 2**16


def _sum_of_rows(x: Any) -> Any:
    """Returns the sum `[O]` of the rows of `[M, O]`. A product adds up bfloat16 in float32.

    TensorFlow's gradient of a bias (2.21) adds up in bfloat16: on processors, the sum of 2,048
    normally distributed rows was wrong by 6 %.
    """
    return tf.squeeze(tf.matmul(tf.ones([1, tf.shape(x)[0]], x.dtype), x), 0)


def _activate(product: Any, bias: Any, activation: Callable) -> Any:
    return tf.cast(activation(_precise(product) + _precise(bias)), product.dtype)


def _gradient_of_activate(upstream: Any, product: Any, bias: Any, activation: Callable) -> Any:
    """Returns the gradient of the product. Its sum over the rows is the bias's gradient."""
    x = _precise(product) + _precise(bias)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = activation(x)
    return tf.cast(tape.gradient(y, x, _precise(upstream)), upstream.dtype)


def _normalize(
    x: Any, update: Any, gamma: Any, beta: Any, *mask: Any, epsilon: float, keep_rate: float
) -> tuple[Any, Any, Any]:
    """Returns h · gamma + beta, and what the gradients need: h, and 1 / standard deviation."""
    total = _precise(x) + _drop(_precise(update), mask, keep_rate)
    centered = total - _mean(total)
    inverse = tf.math.rsqrt(_mean(centered * centered) + epsilon)
    normalized = centered * inverse
    output = normalized * _precise(gamma) + _precise(beta)
    return tf.cast(output, x.dtype), tf.cast(normalized, x.dtype), inverse


def _gradients_of_normalize(
    upstream: Any, normalized: Any, inverse: Any, gamma: Any, *mask: Any, keep_rate: float
) -> list[Any]:
    """Returns the gradients of x, update, gamma and beta."""
    y, h = _precise(upstream), _precise(normalized)
    scaled = y * _precise(gamma)
    x = inverse * (scaled - _mean(scaled) - h * _mean(scaled * h))
    inputs = [tf.cast(found, upstream.dtype) for found in (x, _drop(x, mask, keep_rate))]
    return inputs + [tf.cast(tf.reduce_sum(found, 0), gamma.dtype) for found in (y * h, y)]


def _softmax(logits: Any, bias: Any, *mask: Any, keep_rate: float) -> tuple[Any, Any]:
    """Returns the softmax with and without dropout."""
    probabilities = tf.nn.softmax(_precise(logits) + bias)
    dropped = _drop(probabilities, mask, keep_rate)
    return tf.cast(dropped, logits.dtype), tf.cast(probabilities, logits.dtype)


def _probabilities(logits: Any, bias: Any) -> Any:
    return tf.cast(tf.nn.softmax(_precise(logits) + bias), logits.dtype)


def _probabilities_and_gradient(logits: Any, bias: Any, upstream: Any) -> tuple[Any, Any]:
    """Returns the probabilities and the logits' gradient; `upstream` is the probabilities' one."""
    p, gradient = tf.nn.softmax(_precise(logits) + bias), _precise(upstream)
    gradient = p * (gradient - tf.reduce_sum(gradient * p, -1, keepdims=True))
    return tf.cast(p, logits.dtype), tf.cast(gradient, logits.dtype)


def _gradient_of_softmax(upstream: Any, probabilities: Any, *mask: Any, keep_rate: float) -> Any:
    p = _precise(probabilities)
    gradient = _drop(_precise(upstream), mask, keep_rate)
    # In half precision, the saved probabilities do not add up to 1.
    mean = tf.reduce_sum(gradient * p, -1, keepdims=True) / tf.reduce_sum(p, -1, keepdims=True)
    gradient = p * (gradient - mean)
    return tf.cast(gradient, upstream.dtype)


def _drop(x: Any, mask: tuple[Any, ...], keep_rate: float) -> Any:
    return tf.where(mask[0], x * (1 / keep_rate), tf.zeros([], x.dtype)) if mask else x


def _mean(x: Any) -> Any:
    return tf.reduce_mean(x, -1, keepdims=True)


def _precise(x: Any) -> Any:
    """Returns float64 as it is, and other numbers as float32."""
    return x if x.dtype == tf.float64 else tf.cast(x, tf.float32)


def _with_gradient(differentiable: Callable, *inputs: Any) -> Any:
    """Returns the output for inputs, with its own gradient.

    Args:
        differentiable: function of the inputs. It returns the output, and a function from the
            output's gradient to the inputs' gradients.
        *inputs: the inputs.
    """

    @tf.custom_gradient
    def function(*inputs: Any) -> tuple[Any, Callable]:
        output, gradients = differentiable(*inputs)

        # TensorFlow would treat the saved values of the forward pass as constants.
        def once(upstream: Any) -> list[Any]:
            message = (
                "Layers and heads have no second derivative and no forward-mode derivative if "
                "training=True. Call the model with training=False."
            )
            return [
                tf.raw_ops.PreventGradient(input=found, message=message)
                for found in gradients(upstream)
            ]

        return output, once

    return function(*inputs)


def _run(function: Callable, *tensors: Any, **settings: Any) -> Any:
    """Calls a function of tensors. On CPUs, XLA compiles it if the first tensor's size is known.

    Eager calls and calls with a GPU are not compiled: on GPUs, XLA may be missing, and
    `jit_compile` compiles the whole step.
    """
    part = functools.partial(function, **settings)
    known = tensors[0].shape.is_fully_defined() and not tf.executing_eagerly()
    if not known or tf.config.get_visible_devices("GPU"):
        return part(*tensors)
    # The layers of a graph share compiled functions. Other graphs have their own, because
    # TensorFlow's converters can remove the functions of the graph that they convert.
    graph = tf.compat.v1.get_default_graph()
    if not hasattr(graph, "_keras_bert_compiled"):
        graph._keras_bert_compiled = {}
    compiled = graph._keras_bert_compiled
    key = function, *sorted(settings.items())
    if key not in compiled:
        compiled[key] = tf.function(part, jit_compile=True, autograph=False)
    return compiled[key](*tensors)
