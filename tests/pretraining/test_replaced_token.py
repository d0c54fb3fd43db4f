import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.config import EncoderConfig
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from keras_bert.pretraining.objectives.replaced_tokens import (
    ReplacedTokenModel,
    generator_config,
    put,
    sample,
)
from keras_bert.pretraining.training.step import trainable_variables

ROWS, LENGTH, MAX_PREDICTIONS, SIZE = 4, 10, 3, 40
TOKENS = "encoder/embeddings/token_embedding"
GENERATOR_TOKENS = "generator/embeddings/token_embedding"


@pytest.fixture(scope="module")
def config():
    return EncoderConfig(
        family="electra",
        vocabulary_size=SIZE,
        embedding_size=12,
        hidden_size=16,
        num_layers=2,
        num_heads=4,
        intermediate_size=32,
        max_positions=LENGTH,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        pooler=False,
    )


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    original = rng.integers(5, SIZE, (ROWS, LENGTH)).astype("int32")
    positions = np.stack([1 + rng.permutation(LENGTH - 1)[:MAX_PREDICTIONS] for _ in range(ROWS)])
    positions[0, 1:] = 0
    masked, labels = original.copy(), np.take_along_axis(original, positions, 1)
    np.put_along_axis(masked[:, 1:], np.maximum(positions - 1, 0), 4, 1)
    padding = np.ones((ROWS, LENGTH), "int32")
    padding[1, 7:] = 0
    x = {
        "token_ids": masked,
        "segment_ids": np.zeros((ROWS, LENGTH), "int32"),
        "padding_mask": padding,
        "masked_positions": positions.astype("int32"),
        "original_ids": original,
        "noise": rng.random((ROWS, MAX_PREDICTIONS)).astype("float32"),
    }
    y = {"mlm_logits": labels.astype("int32")}
    w = {"mlm_logits": (positions > 0).astype("float32"), "rtd_logits": padding.astype("float32")}
    return tf.nest.map_structure(tf.constant, (x, y, w))


def make(config, disentangled=False, dtype=None):
    keras.utils.set_random_seed(0)
    generator = generator_config(config, 0.5, 0.5)
    return ReplacedTokenModel(config, generator, disentangled=disentangled, dtype=dtype)


def gradients(model, batch, wanted):
    """Returns the gradient of each head's mean loss with respect to the named variables."""
    x, y, w = batch
    variables = trainable_variables(model)
    heads = [head for head in OBJECTIVES["rtd"].loss_terms if head.key]
    with tf.GradientTape(persistent=True) as tape:
        outputs = model(x, training=False)
        sums = [head.sums(outputs, y, w) for head in heads]
        means = [s[0] / s[2] for s in sums]
    zero = tf.UnconnectedGradients.ZERO
    return {
        head.name: [
            tape.gradient(mean, variables[name], unconnected_gradients=zero).numpy()
            for name in wanted
        ]
        for head, mean in zip(heads, means, strict=True)
    }


def test_sampling_follows_the_distribution():
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (1, 1, 6)).astype("float32")
    noise = ((np.arange(20000) + 0.5) / 20000).astype("float32")[None]
    drawn = keras.ops.convert_to_numpy(sample(np.repeat(logits, 20000, 1), noise))
    assert drawn.dtype == np.int32
    shares = np.bincount(drawn[0], minlength=6) / 20000
    expected = np.exp(logits[0, 0]) / np.exp(logits[0, 0]).sum()
    np.testing.assert_allclose(shares, expected, atol=2e-4)


def test_sampling_at_the_ends():
    logits = np.array([[-200.0, 0.0, -200.0]], "float32")
    for noise in (0.0, 1 - 2**-24):
        assert int(sample(logits, np.array([noise], "float32"))[0]) == 1


def test_tokens_are_put_where_they_were_masked():
    ids = np.arange(12, dtype="int32").reshape(2, 6)
    positions = np.array([[5, 1, 0], [0, 3, 0]], "int32")
    values = np.array([[50, 51, 52], [53, 54, 55]], "int32")
    expected = [[0, 51, 2, 3, 4, 50], [6, 7, 8, 54, 10, 11]]
    np.testing.assert_array_equal(put(ids, positions, values), expected)


@pytest.mark.parametrize("disentangled", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_labels_are_1_only_where_another_token_was_sampled(config, batch, disentangled, dtype):
    x, *_ = batch
    model = make(config, disentangled, dtype)
    outputs = model(x)
    assert outputs["mlm_logits"].dtype == outputs["rtd_logits"].dtype == "float32"
    drawn = sample(outputs["mlm_logits"], x["noise"]).numpy()
    expected = np.zeros((ROWS, LENGTH), int)
    for row in range(ROWS):
        for slot, position in enumerate(x["masked_positions"][row].numpy()):
            if position:
                expected[row, position] = drawn[row, slot] != x["original_ids"][row, position]
    np.testing.assert_array_equal(outputs["replaced"], expected)
    assert expected.any()
    # A generator that is always right replaces nothing.
    table = tf.one_hot(x["original_ids"], SIZE) * 100
    sure = tf.gather(table, x["masked_positions"], batch_dims=1)
    right = put(x["original_ids"], x["masked_positions"], sample(sure, x["noise"]))
    np.testing.assert_array_equal(right, x["original_ids"])


def test_the_total_loss_is_that_of_the_paper(config, batch):
    """Masked LM + 50 x the detector's cross-entropy at all tokens but padding."""
    x, y, w = batch
    outputs = {k: v.numpy().astype("float64") for k, v in make(config)(x).items()}
    logits = outputs["mlm_logits"]
    log_sum = np.log(np.exp(logits).sum(-1))
    own = np.take_along_axis(logits, y["mlm_logits"].numpy()[..., None], -1)[..., 0]
    predictions, tokens = w["mlm_logits"].numpy(), x["padding_mask"].numpy()
    mlm = ((log_sum - own) * predictions).sum() / predictions.sum()
    z, replaced = outputs["rtd_logits"], outputs["replaced"]
    probability = 1 / (1 + np.exp(-z))
    each = -np.log(np.where(replaced == 1, probability, 1 - probability))
    rtd = (each * tokens).sum() / tokens.sum()
    objective = OBJECTIVES["rtd"]
    sums = [head.sums(make(config)(x), y, w).numpy().tolist() for head in objective.loss_terms]
    measures = objective.measures(sums)
    assert measures["mlm_loss"] == pytest.approx(mlm, abs=1e-6)
    assert measures["rtd_loss"] == pytest.approx(rtd, abs=1e-6)
    assert measures["loss"] == pytest.approx(mlm + 50 * rtd, rel=1e-6)
    found = [((z > 0) == replaced)[(replaced == c) & (tokens == 1)].mean() for c in (0, 1)]
    assert measures["rtd_balanced_accuracy"] == pytest.approx(np.mean(found), abs=1e-6)


def test_shared_embeddings_get_the_sum_of_both_gradients(config, batch):
    model = make(config)
    names = list(trainable_variables(model))
    assert TOKENS in names
    assert GENERATOR_TOKENS not in names
    assert len(names) == len(set(names)) == len(model.trainable_variables)
    parts = gradients(model, batch, [TOKENS])
    assert all(np.abs(part[0]).max() > 1e-4 for part in parts.values())

    # The same two, with each loss in a model of its own that shares nothing.
    x, y, w = batch
    variables = trainable_variables(model)
    with tf.GradientTape() as tape:
        outputs = model(x)
        sums = [h.sums(outputs, y, w) for h in OBJECTIVES["rtd"].loss_terms if h.key]
        total = sums[0][0] / sums[0][2] + 50 * sums[1][0] / sums[1][2]
    whole = tape.gradient(total, variables[TOKENS])
    np.testing.assert_allclose(whole, parts["mlm"][0] + 50 * parts["rtd"][0], atol=1e-5)


def test_the_generator_learns_nothing_from_the_detector(config, batch):
    for disentangled in (False, True):
        model = make(config, disentangled)
        names = [n for n in trainable_variables(model) if n.startswith(("generator", "masked_lm"))]
        assert names
        assert all(not np.any(g) for g in gradients(model, batch, names)["rtd"])


def test_disentangled_gradients(config, batch):
    model = make(config, disentangled=True)
    parts = gradients(model, batch, [GENERATOR_TOKENS, TOKENS])
    assert np.abs(parts["mlm"][0]).max() > 1e-4
    assert not np.any(parts["mlm"][1])
    assert not np.any(parts["rtd"][0])
    assert np.abs(parts["rtd"][1]).max() > 1e-4
    # The difference's gradient is what a table of the detector's own would get.
    kept = model.final_model()
    x, y, w = batch
    outputs = model(x)
    table = trainable_variables(kept)[TOKENS]
    token_ids = put(
        x["original_ids"], x["masked_positions"], sample(outputs["mlm_logits"], x["noise"])
    )
    seen = {k: x[k] for k in ("segment_ids", "padding_mask")} | {"token_ids": token_ids}
    with tf.GradientTape() as tape:
        outputs = {"rtd_logits": kept(seen), "replaced": outputs["replaced"]}
        sums = OBJECTIVES["rtd"].loss_terms[1].sums(outputs, y, w)
        loss = sums[0] / sums[2]
    np.testing.assert_allclose(tape.gradient(loss, table), parts["rtd"][1], atol=1e-6)


@pytest.mark.parametrize("disentangled", [False, True])
def test_what_is_kept_detects_as_what_was_trained(config, batch, disentangled):
    model = make(config, disentangled)
    variables = trainable_variables(model)
    rng = np.random.default_rng(0)
    for variable in variables.values():  # as after some training: the difference is not zero
        variable.assign(variable + rng.normal(0, 0.1, variable.shape))
    kept = model.final_model()
    x, *_ = batch
    seen = {k: x[k] for k in ("token_ids", "segment_ids", "padding_mask")}
    np.testing.assert_allclose(kept(seen), model.detector(seen), atol=1e-6)
    if disentangled:
        total = variables[GENERATOR_TOKENS] + variables[TOKENS]
        np.testing.assert_array_equal(trainable_variables(kept)[TOKENS], total)


def test_the_size_of_the_generator(config):
    quarter = generator_config(config, 0.25, 1.0)
    assert (quarter.hidden_size, quarter.num_heads, quarter.intermediate_size) == (4, 1, 8)
    assert (quarter.embedding_size, quarter.num_layers) == (12, 2)
    half = generator_config(config, 1.0, 0.5)
    assert (half.hidden_size, half.num_layers) == (16, 1)
    # As published: google-research/electra, the generators of ELECTRA-small and -base.
    base = EncoderConfig.preset("electra_base")
    assert generator_config(base, 1 / 3, 1.0) == EncoderConfig.preset("electra_base_generator")
