import json
from pathlib import Path

import numpy as np
import pytest

import keras_bert as kb
from keras_bert.checkpoints.variables import named_variables, without_weights
from keras_bert.families import FAMILIES
from keras_bert.layers.disentangled_attention import RelativePositions
from keras_bert.layers.positions import DistanceBias
from tests.layers.paper import encode

FIXTURES = Path(__file__).parent.parent / "fixtures"
SMALL = {
    "vocabulary_size": 50,
    "hidden_size": 24,
    "num_layers": 3,
    "num_heads": 4,
    "intermediate_size": 40,
    "max_positions": 16,
}
CONFIGURATIONS = {
    "gelu": {},
    "gelu_tanh": {"activation": "gelu_tanh", "layer_norm_epsilon": 1e-5},
    "relu, one head": {"activation": "relu", "num_heads": 1},
    "silu, factorised embedding": {"activation": "silu", "embedding_size": 10},
    "one layer three times": {"layer_groups": 1},
    "two groups of two layers": {"num_layers": 4, "layer_groups": 2, "layers_per_group": 2},
    "positions from the third row, one segment": {"position_offset": 2, "num_segments": 1},
    "no segments": {"num_segments": 0},
    "no positions": {"position_input": False},
}


def random_encoder(seed=0, **changes):
    """An encoder all of whose weights, biases too, are far from their initial values."""
    encoder = kb.Encoder(kb.EncoderConfig(**SMALL | changes))
    generator = np.random.default_rng(seed)
    for variable in encoder.weights:
        variable.assign(generator.normal(0.0, 0.5, variable.shape))
    return encoder


def padded_batch():
    generator = np.random.default_rng(1)
    lengths = (9, 5, 1)
    mask = np.array([[int(t < n) for t in range(9)] for n in lengths], "int32")
    return {
        "token_ids": generator.integers(0, 50, (3, 9)).astype("int32"),
        "segment_ids": generator.integers(0, 2, (3, 9)).astype("int32"),
        "padding_mask": mask,
    }


@pytest.mark.parametrize("changes", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_equals_the_papers_formulas(changes):
    encoder, inputs = random_encoder(**changes), padded_batch()
    weights = {n: np.asarray(v.numpy(), "float64") for n, v in named_variables(encoder).items()}
    outputs = encoder(inputs, return_hidden_states=True, return_attentions=True)
    for row, length in enumerate(inputs["padding_mask"].sum(1)):
        states, maps, pooled = encode(
            encoder.config,
            weights,
            inputs["token_ids"][row, :length],
            inputs["segment_ids"][row, :length],
        )
        for ours, paper in zip(outputs["hidden_states"], states, strict=True):
            np.testing.assert_allclose(ours[row, :length], paper, rtol=0, atol=1e-5)
        for ours, paper in zip(outputs["attentions"], maps, strict=True):
            np.testing.assert_allclose(ours[row, :, :length, :length], paper, rtol=0, atol=1e-5)
            assert not np.any(ours[row, :, :, length:])  # nothing is paid to padding
        np.testing.assert_allclose(outputs["pooled_output"][row], pooled, rtol=0, atol=1e-5)
        assert np.array_equal(outputs["hidden_states"][-1], outputs["sequence_output"])


def test_alone_or_padded_in_a_batch_is_the_same():
    encoder, inputs = random_encoder(), padded_batch()
    together = encoder(inputs)
    for row, length in enumerate(inputs["padding_mask"].sum(1)):
        alone = encoder({name: value[row : row + 1, :length] for name, value in inputs.items()})
        np.testing.assert_allclose(
            together["sequence_output"][row, :length], alone["sequence_output"][0], atol=1e-6
        )
        np.testing.assert_allclose(
            together["pooled_output"][row], alone["pooled_output"][0], atol=1e-6
        )


def test_what_stands_at_padding_does_not_matter():
    encoder, inputs = random_encoder(), padded_batch()
    other = inputs | {"token_ids": np.where(inputs["padding_mask"], inputs["token_ids"], 7)}
    assert np.any(other["token_ids"] != inputs["token_ids"])
    assert np.array_equal(encoder(inputs)["pooled_output"], encoder(other)["pooled_output"])


def test_attention_looks_both_ways():
    encoder, inputs = random_encoder(), padded_batch()
    first = encoder(inputs)["sequence_output"][0, 0]
    inputs["token_ids"][0, 8] += 1
    assert np.abs(encoder(inputs)["sequence_output"][0, 0] - first).max() > 1e-3


def test_segments_and_mask_may_be_left_out():
    encoder, inputs = random_encoder(), padded_batch()
    zeros, ones = np.zeros((3, 9), "int32"), np.ones((3, 9), "int32")
    short = encoder({"token_ids": inputs["token_ids"]})
    full = encoder({"token_ids": inputs["token_ids"], "segment_ids": zeros, "padding_mask": ones})
    assert np.array_equal(short["sequence_output"], full["sequence_output"])


COUNTS = json.loads((FIXTURES / "parameters" / "counts.json").read_text())


@pytest.mark.parametrize("name", [n for family in FAMILIES.values() for n in family.PRESETS])
def test_published_number_of_parameters(name):
    with without_weights():
        encoder = kb.Encoder(kb.EncoderConfig.preset(name))
    assert encoder.count_params() == COUNTS[name]


def test_positions_are_counted_over_tokens():
    """As RoBERTa does: padding has the row before the first."""
    encoder = random_encoder(position_offset=3)
    ids = np.arange(8, dtype="int32").reshape(2, 4)
    mask = np.array([[0, 1, 1, 0], [1, 1, 1, 1]], "int32")
    rows = np.array([[2, 3, 4, 2], [3, 4, 5, 6]], "int32")
    counted = encoder({"token_ids": ids, "padding_mask": mask})["sequence_output"]
    given = encoder({"token_ids": ids, "padding_mask": mask, "position_ids": rows})
    assert np.array_equal(counted, given["sequence_output"])
    plain = random_encoder()
    backwards = {"token_ids": ids[:, ::-1], "position_ids": np.tile(np.arange(4)[::-1], (2, 1))}
    np.testing.assert_allclose(
        plain({"token_ids": ids})["sequence_output"],
        plain(backwards)["sequence_output"][:, ::-1],
        atol=1e-6,
    )


def test_two_encoders_share_their_embeddings(tmp_path):
    large = random_encoder(embedding_size=10)
    small = kb.Encoder(large.config.replace(hidden_size=8, num_layers=1), large.embeddings, "small")
    assert small.embeddings is large.embeddings
    assert small.projection.kernel.shape == (10, 8)
    names = named_variables(small)
    assert all(name.startswith("encoder/") for name in names)
    assert names["encoder/embeddings/token_embedding"] is large.embeddings.token_embedding
    kb.save(small, tmp_path / "small")
    alone, inputs = kb.load(tmp_path / "small"), padded_batch()
    assert np.array_equal(alone(inputs)["sequence_output"], small(inputs)["sequence_output"])
    with pytest.raises(kb.InputError, match="shared embeddings are 10 wide"):
        kb.Encoder(large.config.replace(embedding_size=9), large.embeddings)


def test_gradients_of_repeated_tokens_equal_the_dense_ones():
    import tensorflow as tf

    encoder = random_encoder(hidden_dropout=0.0, attention_dropout=0.0)
    table = encoder.embeddings.token_embedding.value
    ids = np.array([[3, 3, 3, 7], [3, 7, 7, 0]], "int32")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(encoder({"token_ids": ids})["sequence_output"] ** 3)
    gradient = tape.gradient(loss, table)
    assert isinstance(gradient, tf.Tensor)  # not IndexedSlices, which Keras' optimizers get wrong
    step = 1e-3
    for row, column in ((3, 0), (7, 5), (0, 2)):
        losses = []
        for sign in (1, -1):
            moved = table.numpy()
            moved[row, column] += sign * step
            encoder.embeddings.token_embedding.assign(moved)
            output = encoder({"token_ids": ids})["sequence_output"]
            losses.append(np.sum(np.asarray(output, "float64") ** 3))
            moved[row, column] -= sign * step
            encoder.embeddings.token_embedding.assign(moved)
        numeric = (losses[0] - losses[1]) / (2 * step)
        assert float(gradient[row, column]) == pytest.approx(numeric, rel=2e-2, abs=2e-2)


BARE = SMALL | {"num_segments": 0, "embedding_norm": False, "hidden_dropout": 0.0}


def embeddings(**changes):
    return kb.Encoder(kb.EncoderConfig(**BARE | changes), dtype="mixed_bfloat16").embeddings


def layer(kind, **changes):
    made = kind(kb.EncoderConfig(**BARE | changes), dtype="mixed_bfloat16")
    made.build()
    return made


def of_a_token():
    layer = embeddings(position_input=False)
    return layer.token_embedding, layer(np.full((25, 40), 3))


def of_a_position():
    layer, ids = embeddings(), np.full((250, 4), 3)
    return layer.position_embedding, layer(ids, position_ids=ids)


def of_a_far_distance():
    bias = layer(DistanceBias, bias_buckets=32)
    return bias.table, bias(np.arange(64)[np.newaxis])


def of_a_far_relative_position():
    relative = layer(RelativePositions, relative_positions=3, relative_layer_norm=False)
    return relative.table, relative(np.ones((1, 500), "int32"))[0]


def of_a_normalized_relative_position():
    relative = layer(RelativePositions, relative_positions=3, relative_layer_norm=True)
    return relative.normalization.beta, relative(np.ones((1, 500), "int32"))[0]


LOOKUPS = (
    of_a_token,
    of_a_position,
    of_a_far_distance,
    of_a_far_relative_position,
    of_a_normalized_relative_position,
)


@pytest.mark.parametrize("lookup", LOOKUPS)
def test_many_gradients_of_a_row_are_added_up_in_float32(lookup):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        table, output = lookup()
        loss = tf.reduce_sum(tf.cast(output, "float32"))
    gradient = tape.gradient(loss, table.value)
    assert output.dtype == "bfloat16"
    # Each looked up number has the gradient 1. In bfloat16, 256 + 1 is 256.
    assert np.sum(gradient, dtype="float64") == pytest.approx(int(tf.size(output)), rel=5e-3)


def test_too_long_a_sequence_is_refused():
    with pytest.raises(kb.InputError, match="17 tokens.*16 positions"):
        random_encoder()({"token_ids": np.zeros((1, 17), "int32")})


def test_token_ids_are_needed():
    with pytest.raises(kb.InputError, match="token_ids"):
        random_encoder()({"input_ids": np.zeros((1, 3), "int32")})
