"""The encoder as the papers write it, in float64 NumPy, one head and one text at a time."""

import math

import numpy as np

ACTIVATIONS = {
    "gelu": np.vectorize(lambda x: x * 0.5 * math.erfc(-x / math.sqrt(2))),
    "gelu_tanh": lambda x: x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "relu": lambda x: np.where(x > 0, x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def layer_order(config):
    """Returns ALBERT's order: its groups of layers are repeated until `num_layers` is reached."""
    groups, inner = config.layer_groups or config.num_layers, config.layers_per_group
    for step in range(config.num_layers):
        group = int(step / (config.num_layers / groups))
        yield from range(group * inner, (group + 1) * inner)


def encode(config, weights, token_ids, segment_ids):
    """One text without padding.

    Args:
        config: an EncoderConfig.
        weights: name to float64 array.
        token_ids: `[T]`.
        segment_ids: `[T]`.

    Returns:
        hidden states `[L + 1, T, H]`, attention maps `[L, N, T, T]`, pooled `[H]`.
    """

    def linear(x, name):
        return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]

    def layer_norm(x, name):
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        normal = (x - mean) / np.sqrt(variance + config.layer_norm_epsilon)
        return normal * weights[f"{name}/gamma"] + weights[f"{name}/beta"]

    table = "encoder/embeddings"
    x = weights[f"{table}/token_embedding"][token_ids]
    if config.num_segments == 1:
        x = x + weights[f"{table}/segment_embedding"][0]
    elif config.num_segments:
        x = x + weights[f"{table}/segment_embedding"][segment_ids]
    if config.position_input:
        first = config.position_offset
        x = x + weights[f"{table}/position_embedding"][first : first + len(token_ids)]
    x = layer_norm(x, f"{table}/layer_norm")
    if config.embedding_size != config.hidden_size:
        x = linear(x, "encoder/projection")
    states, maps = [x], []
    size = config.hidden_size // config.num_heads
    for index in layer_order(config):
        layer = f"encoder/layer_{index}"
        query, key, value = (linear(x, f"{layer}/attention/{n}") for n in ("query", "key", "value"))
        contexts, layer_maps = [], []
        for head in range(config.num_heads):
            part = slice(head * size, (head + 1) * size)
            logits = query[:, part] @ key[:, part].T / math.sqrt(size)
            weight = np.exp(logits - logits.max(-1, keepdims=True))
            weight /= weight.sum(-1, keepdims=True)
            layer_maps.append(weight)
            contexts.append(weight @ value[:, part])
        attended = linear(np.concatenate(contexts, -1), f"{layer}/attention/output")
        x = layer_norm(x + attended, f"{layer}/attention_layer_norm")
        inner = ACTIVATIONS[config.activation](linear(x, f"{layer}/intermediate"))
        x = layer_norm(x + linear(inner, f"{layer}/output"), f"{layer}/output_layer_norm")
        states.append(x)
        maps.append(np.stack(layer_maps))
    return np.stack(states), np.stack(maps), np.tanh(linear(x[0], "encoder/pooler/dense"))
