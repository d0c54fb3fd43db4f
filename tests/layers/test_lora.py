"""Low-rank adapters, compared with PEFT's formula in NumPy."""

import json
import logging

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import keras_bert as kb
from keras_bert.checkpoints.variables import named_variables
from keras_bert.layers.lora import adapted_layers
from tests.jax_backend import run_on_jax
from tests.layers.test_encoder import padded_batch, random_encoder
from tests.marks import others_swept

FACTORS = ("lora_kernel_a", "lora_kernel_b")
ENCODERS = {
    "three layers": {},
    "one layer three times": {"layer_groups": 1},
    "relative positions": {"relative_positions": 4},
    "shared relative projections": {"relative_positions": 4, "shared_position_keys": True},
    "factorized embedding": {"embedding_size": 10},
    "no pooler": {"pooler": False},
}
LABELS = ["no", "maybe", "yes"]
TASKS = {
    "pooled": lambda e: kb.SequenceClassifier(e, labels=LABELS),
    "mean": lambda e: kb.SequenceClassifier(e, labels=LABELS, pooling="mean"),
    "attention": lambda e: kb.SequenceClassifier(e, labels=LABELS, pooling="attention"),
    "tags, CRF": lambda e: kb.TokenClassifier(e, labels=["O", "B", "I"], crf=True),
    "span": kb.SpanClassifier,
    "choice": kb.MultipleChoice,
    "embedder": kb.TextEmbedder,
    "pairs": lambda e: kb.TextEmbedder(e, objective="softmax", labels=LABELS, normalize=False),
    "masked lm": kb.MaskedLanguageModel,
    "pretraining": kb.PretrainingModel,
    "next sentence": kb.NextSentencePredictor,
    "replaced token": kb.ReplacedTokenDetector,
}
WITH_POOLER = ("pooled", "choice", "pretraining", "next sentence")


def classifier(seed=0, **changes):
    keras.utils.set_random_seed(seed)
    encoder = random_encoder(seed, **changes)
    for weight in encoder.weights:  # large weights have no gradients
        weight.assign(0.3 * np.array(weight))
    model = kb.SequenceClassifier(encoder, labels=LABELS)
    assert model.pooling == "pooled"
    return model


def fill(model, seed=5):
    """Gives all factors random values, so that adapters have an effect."""
    generator = np.random.default_rng(seed)
    for layer in adapted_layers(model):
        for factor in (layer.lora_kernel_a, layer.lora_kernel_b):
            factor.assign(generator.normal(0.0, 0.2, factor.shape))
    return model


def adapted(rank=2, targets=("query", "value"), lora_alpha=3.0, **changes):
    model = classifier(**changes)
    model.enable_lora(rank, targets, lora_alpha=lora_alpha)
    return fill(model)


def vectors(model):
    """Returns the names of the encoder's biases and normalizations below the pooler."""
    names = [name for name in named_variables(model) if name.startswith("encoder/")]
    ends = ("/bias", "/gamma", "/beta")
    return {n for n in names if n.endswith(ends) and not n.startswith("encoder/pooler/")}


def values(model):
    return {name: np.array(weight) for name, weight in named_variables(model).items()}


def inputs_of(model):
    batch = padded_batch()
    if isinstance(model, kb.MultipleChoice):
        return {name: value[:, None].repeat(2, axis=1) for name, value in batch.items()}
    return batch


def outputs(model):
    result = keras.tree.flatten(model(inputs_of(model)))
    return np.concatenate([np.ravel(value) for value in result])


def assert_close(actual, expected, tolerance=1e-6):
    """Compares relative to the largest value, since random weights make large outputs."""
    assert np.abs(actual - expected).max() <= tolerance * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("changes", ENCODERS.values(), ids=ENCODERS)
def test_an_encoder(changes):
    """Outputs stay; factors, biases and normalizations are trainable."""
    encoder = random_encoder(**changes)
    before, weights = outputs(encoder), values(encoder)
    encoder.enable_lora(2, ("query", "value"))
    np.testing.assert_array_equal(outputs(encoder), before)
    trained = {name for name, w in named_variables(encoder).items() if w.trainable}
    layers = encoder.config.num_distinct_layers
    factors = {
        f"encoder/layer_{index}/attention/{name}/{factor}"
        for index in range(layers)
        for name in ("query", "value")
        for factor in FACTORS
    }
    assert trained == factors | vectors(encoder)
    counts = {name: int(np.prod(w.shape)) for name, w in named_variables(encoder).items()}
    # layers, projections, rank, inputs and outputs
    assert sum(counts[name] for name in factors) == layers * 2 * 2 * (24 + 24)
    for name, value in weights.items():
        np.testing.assert_array_equal(values(encoder)[name], value)


@pytest.mark.parametrize("changes", ENCODERS.values(), ids=ENCODERS)
def test_by_default_all_dense_layers_below_the_pooler_have_adapters(changes):
    encoder = random_encoder(**changes)
    encoder.enable_lora(2)
    trained = {name for name, w in named_variables(encoder).items() if w.trainable}
    dense = {"query", "key", "value", "output", "intermediate"}
    dense |= {"position_query", "position_key", "projection"}
    kernels = {name.rpartition("/")[0] for name in values(encoder) if name.endswith("/kernel")}
    expected = {name for name in kernels if name.rpartition("/")[2] in dense}
    assert len(expected) >= 6 * encoder.config.num_distinct_layers
    factors = {f"{name}/{factor}" for name in expected for factor in FACTORS}
    assert trained == factors | vectors(encoder)


@pytest.mark.parametrize("task", TASKS)
def test_a_task(task):
    """The head is trainable, too, and the pooler if the head takes its output."""
    model = TASKS[task](random_encoder())
    before = outputs(model)
    model.enable_lora(4)
    np.testing.assert_array_equal(outputs(model), before)
    trained = {name for name, w in named_variables(model).items() if w.trainable}
    head = {name for name in named_variables(model) if not name.startswith("encoder/")}
    if task in WITH_POOLER:
        head |= {f"encoder/pooler/dense/{name}" for name in ("kernel", "bias")}
    factors = {name for name in named_variables(model) if name.endswith(FACTORS)}
    assert trained == factors | head | vectors(model)
    assert {id(w) for w in model.trainable_weights} == {
        id(w) for name, w in named_variables(model).items() if name in trained
    }


@pytest.mark.parametrize("changes", ENCODERS.values(), ids=ENCODERS)
def test_outputs_are_those_of_peft(changes):
    """PEFT adds (x Aᵀ) Bᵀ α/r to x Wᵀ. In Keras' layout, the kernel becomes W + α/r · A B."""
    encoder = random_encoder(**changes)
    encoder.enable_lora(3, ("query", "value", "key", "output", "intermediate"), lora_alpha=5.0)
    fill(encoder)
    plain, adapters = random_encoder(**changes), values(encoder)
    for name, weight in named_variables(plain).items():
        value = adapters[name].astype("float64")
        a, b = (f"{name.removesuffix('/kernel')}/{factor}" for factor in FACTORS)
        if a in adapters:
            a, b = adapters[a], adapters[b]
            value = value + 5.0 / 3 * (a.astype("float64") @ b.astype("float64"))
        weight.assign(value)
    assert_close(outputs(encoder), outputs(plain))
    assert np.abs(outputs(encoder) - outputs(random_encoder(**changes))).max() > 0.01


def test_the_first_factor_has_the_authors_initial_values():
    """`nn.init.kaiming_uniform_(A, a=math.sqrt(5))` is uniform between ± 1 / √inputs."""
    encoder = kb.Encoder(kb.EncoderConfig.preset("bert_tiny", vocabulary_size=50))
    encoder.enable_lora(64, "query", seed=3)
    a = np.array(encoder.encoder_layers[0].attention.query.lora_kernel_a)
    assert np.abs(a).max() <= 1 / np.sqrt(128)
    assert np.std(a) == pytest.approx(1 / np.sqrt(128) / np.sqrt(3), rel=0.03)


def test_a_seed_gives_the_same_factors():
    def factors(seed):
        model = classifier()
        model.enable_lora(2, seed=seed)
        return [np.array(layer.lora_kernel_a).tobytes() for layer in adapted_layers(model)]

    assert factors(1) == factors(1)
    assert len({*factors(1), *factors(2)}) == 2 * 18
    assert len({*factors(None)}) == 18


def train(model, steps=3):
    """Trains with plain Keras; returns the weights before and after."""
    model.compile(keras.optimizers.Adam(1e-2), model.default_loss())
    before = values(model)
    model.fit(inputs_of(model), np.array([0, 1, 2]), epochs=steps, verbose=0)
    return before, values(model)


def test_training_keeps_the_matrices_of_the_encoder():
    model = adapted()
    before, after = train(model)
    changed = {name for name in after if not np.array_equal(before[name], after[name])}
    assert changed == {n for n, weight in named_variables(model).items() if weight.trainable}


@pytest.mark.parametrize("part", ["encoder", "model"])
def test_after_an_earlier_freezing(part):
    model = classifier()
    (model if part == "model" else model.encoder).trainable = False
    model.enable_lora(2, ("query", "value"))
    others = 3 * (6 + 2 * 2) + 2  # biases and normalizations of layers, and of the embeddings
    assert len(model.encoder.trainable_weights) == 3 * 2 * 2 + others + 2
    assert len(model.trainable_weights) == 3 * 2 * 2 + others + 4
    before, after = train(model)
    name = "encoder/layer_2/attention/query/lora_kernel_b"
    assert not np.array_equal(before[name], after[name])


def test_in_a_functional_model():
    encoder = random_encoder()
    encoder.enable_lora(2, ("query", "value"))
    ids = keras.Input((9,), dtype="int32", name="token_ids")
    x = encoder({"token_ids": ids})["pooled_output"]
    model = keras.Model(ids, keras.layers.Dense(2)(x))
    assert len(model.trainable_weights) == 3 * 2 * 2 + len(vectors(encoder)) + 2


def test_functions_that_keras_compiled_before_are_not_used():
    model, inputs = classifier(), padded_batch()
    model.predict(inputs, verbose=0)
    model.enable_lora(2)
    fill(model)
    assert_close(model.predict(inputs, verbose=0), np.asarray(model(inputs)))
    expected = model.predict(inputs, verbose=0)
    model.merge_lora()
    assert_close(model.predict(inputs, verbose=0), expected)


def test_merging_the_encoder_keeps_what_keras_compiled_for_the_task():
    model, inputs = adapted(), padded_batch()
    expected = model.predict(inputs, verbose=0)
    model.encoder.merge_lora()
    assert_close(model.predict(inputs, verbose=0), expected)


@pytest.mark.parametrize("changes", ENCODERS.values(), ids=ENCODERS)
def test_merging(changes):
    encoder = random_encoder(**changes)
    encoder.enable_lora(3, ("query", "output"))
    before = outputs(fill(encoder))
    encoder.merge_lora()
    assert_close(outputs(encoder), before)
    plain = random_encoder(**changes)
    assert [w.path for w in encoder.weights] == [w.path for w in plain.weights]
    assert all(weight.trainable for weight in encoder.weights)
    with pytest.raises(kb.InputError, match="This Encoder has no adapters; add them with enable"):
        encoder.merge_lora()
    encoder.enable_lora(2)  # again, on the merged kernels
    assert_close(outputs(encoder), before)


TARGETS = {
    "query": 3,
    "output": 6,
    "attention/output": 3,
    "layer_0/output": 1,
    "layer_0/attention/query": 1,
    "position_key": 3,
    "projection": 1,
    "embeddings/projection": 1,
}


@pytest.mark.parametrize(("target", "count"), TARGETS.items())
def test_targets(target, count):
    traits = {"relative_positions": 4, "embedding_size": 10, "projection_first": True}
    encoder = random_encoder(**traits)
    encoder.enable_lora(2, target)
    layers = adapted_layers(encoder)
    assert len(layers) == count
    assert all(layer.path.endswith(f"/{target}") for layer in layers)
    if target == "projection":
        assert not encoder.embeddings.token_embedding.trainable


WRONG = {
    "unknown": ({"targets": ["querry"]}, "no dense layer 'querry'. Did you mean 'query'. Choose"),
    "choices": ({"targets": "dense"}, "no dense layer 'dense'. Choose from"),
    "no names": ({"targets": []}, "targets is empty"),
    "rank 0": ({"rank": 0}, "rank is 0, but must be a whole number, 1 or more"),
    "rank 1.5": ({"rank": 1.5}, "rank is 1.5, but must be"),
    "alpha 0": ({"lora_alpha": 0.0}, "lora_alpha is 0.0, but must be a positive number"),
    "high rank": ({"rank": 25}, "rank is 25, .* choose a rank of at most 24"),
}


@pytest.mark.parametrize(("options", "message"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_change_nothing(options, message):
    encoder = random_encoder()
    with pytest.raises(kb.InputError, match=message) as error:
        encoder.enable_lora(**{"rank": 2, **options})
    if options.get("targets") == "dense":
        assert {"query", "key", "value", "output", "intermediate"} <= set(
            str(error.value).replace(",", " ").split()
        )
    assert len(encoder.trainable_weights) == len(encoder.weights)
    assert not adapted_layers(encoder)


def test_twice_is_refused():
    model = adapted()
    with pytest.raises(kb.InputError, match="has adapters already. Call merge_lora"):
        model.enable_lora(2)


# Files of adapters


def test_a_file_of_adapters(tmp_path):
    model = adapted()
    train(model)
    expected, path = outputs(model), tmp_path / "adapters.safetensors"
    model.save_lora_weights(path)
    saved = load_file(path)
    assert set(saved) == {n for n, w in named_variables(model).items() if w.trainable}
    other = classifier()
    other.load_lora_weights(path)
    np.testing.assert_array_equal(outputs(other), expected)
    assert {w.path for w in other.trainable_weights} == {w.path for w in model.trainable_weights}
    fill(other, seed=6)
    other.load_lora_weights(path)  # into adapters of the same kind
    np.testing.assert_array_equal(outputs(other), expected)


def test_an_encoder_reads_a_tasks_file_and_a_task_an_encoders(tmp_path):
    model, path = adapted(), tmp_path / "adapters.safetensors"
    model.save_lora_weights(path)
    encoder = classifier().encoder
    encoder.load_lora_weights(path)
    np.testing.assert_array_equal(outputs(encoder), outputs(model.encoder))
    encoder.save_lora_weights(path)
    other = classifier()
    head = np.array(other.head.logits.kernel)
    other.load_lora_weights(path)
    np.testing.assert_array_equal(outputs(other.encoder), outputs(encoder))
    np.testing.assert_array_equal(np.array(other.head.logits.kernel), head)


def test_an_embedding_of_another_encoder(tmp_path):
    """The paths of its weights begin with the other encoder's name."""

    def shared():
        other = random_encoder(embedding_size=10, projection_first=True)
        return kb.Encoder(other.config, embeddings=other.embeddings, name="second")

    encoder, path = shared(), tmp_path / "adapters.safetensors"
    encoder.enable_lora(2, ("projection", "query"))
    fill(encoder).save_lora_weights(path)
    assert "encoder/embeddings/projection/lora_kernel_a" in load_file(path)
    other = shared()
    other.set_weights(
        [w for w, v in zip(encoder.get_weights(), encoder.weights, strict=True) if is_base(v)]
    )
    other.load_lora_weights(path)
    np.testing.assert_array_equal(outputs(other), outputs(encoder))


def is_base(weight):
    return not weight.path.endswith(FACTORS)


def test_other_kernels_are_noticed(tmp_path, caplog):
    model, path = adapted(), tmp_path / "adapters.safetensors"
    model.save_lora_weights(path)
    classifier().load_lora_weights(path)
    assert not caplog.records
    other = classifier()
    other.encoder.encoder_layers[1].attention.query.kernel.assign(np.ones((24, 24)))
    with caplog.at_level(logging.WARNING):
        other.load_lora_weights(path)
    assert "was trained with other kernels" in caplog.text


UNFIT = {
    "other labels": (
        lambda: kb.SequenceClassifier(random_encoder(), labels=["yes", "maybe", "no"]),
        r"has the labels \['no', 'maybe', 'yes'\], but this model has \['yes'",
    ),
    "another task": (
        lambda: kb.TokenClassifier(random_encoder(), labels=LABELS),
        "saved by a SequenceClassifier, but this model is a TokenClassifier",
    ),
    "wider": (
        lambda: classifier(hidden_size=32),
        r"'encoder/embeddings/layer_norm/gamma' has shape \[24\], but must have \[32\]",
    ),
    "fewer layers": (
        lambda: classifier(num_layers=2),
        "has an adapter for encoder/layer_2/attention/query, which this encoder lacks",
    ),
    "another head": (
        lambda: kb.SequenceClassifier(random_encoder(), labels=LABELS, pooling="attention"),
        "lacks the tensor 'pooling/score/kernel'",
    ),
    "other layers": (lambda: adapted(targets="key"), "adapters in other layers, or of another"),
    "another rank": (lambda: adapted(rank=3), "of another rank or lora_alpha, than"),
    "another alpha": (lambda: adapted(lora_alpha=4.0), "of another rank or lora_alpha, than"),
}


@pytest.mark.parametrize(("make", "message"), UNFIT.values(), ids=UNFIT)
def test_a_file_that_does_not_fit_changes_nothing(make, message, tmp_path):
    path, model = tmp_path / "adapters.safetensors", make()
    adapted().save_lora_weights(path)
    before = values(model)
    with pytest.raises(kb.InputError, match=message):
        model.load_lora_weights(path)
    assert before.keys() == values(model).keys()
    for name, value in values(model).items():
        np.testing.assert_array_equal(value, before[name])


def cut(path):
    path.write_bytes(path.read_bytes()[:200])


def without_description(path):
    save_file(load_file(path), path)


def without_labels(path):
    save_file(load_file(path), path, {"keras_bert_lora": '{"task": "Encoder"}'})


def without_adapters(path):
    change(path, lambda tensors: [tensors.pop(n) for n in list(tensors) if n.endswith(FACTORS)])


def without_a_factor(path):
    change(path, lambda t: t.pop("encoder/layer_0/attention/query/lora_kernel_b"))


def without_a_bias(path):
    change(path, lambda t: t.pop("encoder/layer_1/attention/key/bias"))


def infinite(path):
    change(path, lambda t: t["classifier/logits/bias"].fill(np.inf))


def change(path, how):
    tensors = load_file(path)
    how(tensors)
    description = {"task": "SequenceClassifier", "labels": LABELS, "lora_alpha": 3.0, "kernels": ""}
    save_file(tensors, path, {"keras_bert_lora": json.dumps(description)})


DAMAGES = {
    cut: "is not a readable safetensors file",
    without_description: "has no adapters; give a file that save_lora_weights wrote",
    without_labels: "has no adapters; give a file that save_lora_weights wrote",
    without_adapters: "has no adapters; give a file that save_lora_weights wrote",
    without_a_factor: "lacks the tensor 'encoder/layer_0/attention/query/lora_kernel_b'",
    without_a_bias: "lacks the tensor 'encoder/layer_1/attention/key/bias'",
    infinite: "'classifier/logits/bias' holds values that are not finite",
}


@pytest.mark.parametrize(
    ("damage", "message"), DAMAGES.items(), ids=[damage.__name__ for damage in DAMAGES]
)
def test_a_damaged_file(damage, message, tmp_path):
    path = tmp_path / "adapters.safetensors"
    adapted().save_lora_weights(path)
    damage(path)
    model = classifier()
    with pytest.raises(kb.CheckpointError, match=message):
        model.load_lora_weights(path)
    assert not adapted_layers(model)


def test_a_missing_file(tmp_path):
    with pytest.raises(kb.CheckpointError, match="no.safetensors is not a readable"):
        classifier().load_lora_weights(tmp_path / "no.safetensors")


def test_adapters_of_different_ranks_are_not_saved(tmp_path):
    model = adapted()
    model.encoder.encoder_layers[0].attention.key.enable_lora(1)
    with pytest.raises(kb.InputError, match="The adapters differ in rank or lora_alpha"):
        model.save_lora_weights(tmp_path / "adapters.safetensors")
    with pytest.raises(kb.InputError, match="This SequenceClassifier has no adapters"):
        classifier().save_lora_weights(tmp_path / "adapters.safetensors")
    assert not list(tmp_path.iterdir())


# Files of models


def save_keras(model, path):
    model.save(path.with_suffix(".keras"))
    return path.with_suffix(".keras")


def save_as(format):
    def save(model, path):
        kb.save(model, path, format=format)
        return path

    return save


SAVES = {"keras": save_keras, "native": save_as("native"), "huggingface": save_as("huggingface")}
SAVES |= {"google": save_as("google"), "keras-hub": save_as("keras-hub")}


@pytest.mark.parametrize("format", others_swept(SAVES, quick=4))
def test_saved_models_are_merged_and_the_live_model_trains_on(format, tmp_path):
    traits = {"activation": "gelu_tanh"} if format in ("google", "keras-hub") else {}
    model = adapted(**traits)
    before, expected = values(model), outputs(model)
    loaded = kb.load(SAVES[format](model, tmp_path / "model"))
    assert not adapted_layers(loaded)
    assert_close(outputs(loaded), expected)
    assert before.keys() == values(model).keys()
    for name, value in values(model).items():
        np.testing.assert_array_equal(value, before[name])
    before, after = train(model)
    changed = {name for name in after if not np.array_equal(before[name], after[name])}
    assert changed == {n for n, weight in named_variables(model).items() if weight.trainable}


def test_a_trained_model_in_a_keras_file(tmp_path):
    """Keras warns that the file's optimizer is for the adapters, not for all weights."""
    model = adapted()
    train(model)
    model.save(tmp_path / "model.keras")
    with pytest.warns(UserWarning, match="Skipping variable loading for optimizer"):
        loaded = kb.load(tmp_path / "model.keras")
    assert_close(outputs(loaded), outputs(model))


def test_a_saved_embedder_is_merged(tmp_path):
    model = kb.TextEmbedder(random_encoder())
    model.enable_lora(2)
    expected = outputs(fill(model))
    kb.save(model, tmp_path / "model")
    assert_close(outputs(kb.load(tmp_path / "model")), expected)


def test_mixed_precision_does_not_round_what_is_saved(tmp_path):
    """Keras' `layer.kernel` has the precision of computations: bfloat16."""
    encoder = kb.Encoder(random_encoder().config, dtype="mixed_bfloat16")
    encoder.set_weights(random_encoder().get_weights())
    encoder.enable_lora(2, "query")
    fill(encoder)
    query = encoder.encoder_layers[0].attention.query
    a, b = (np.array(x, "float64") for x in (query.lora_kernel_a, query.lora_kernel_b))
    expected = np.array(query._kernel, "float64") + a @ b
    kb.save(encoder, tmp_path / "model")
    saved = load_file(tmp_path / "model" / "weights.safetensors")
    np.testing.assert_allclose(saved[f"{query.path}/kernel"], expected, rtol=1e-5, atol=1e-6)
    encoder.merge_lora()
    np.testing.assert_allclose(np.array(query._kernel), expected, rtol=1e-5, atol=1e-6)


# Kernels of int8


def quantized(**changes):
    model = classifier(**changes)
    model.quantize("int8")
    return model


def test_int8_kernels_stay_and_the_head_becomes_float():
    model = quantized()
    before, kernels = outputs(model.encoder), values(model)
    model.enable_lora(2, ("query", "value"))
    expected = outputs(model)
    trained = {name for name, w in named_variables(model).items() if w.trainable}
    plain = adapted()
    assert trained == {n for n, weight in named_variables(plain).items() if weight.trainable}
    assert {weight.dtype for weight in model.trainable_weights} == {"float32"}
    sequence = np.prod((3, 9, 24))
    np.testing.assert_array_equal(outputs(model.encoder)[-sequence:], before[-sequence:])
    start, after = train(model)
    assert not np.array_equal(outputs(model), expected)
    changed = {name for name in after if not np.array_equal(start[name], after[name])}
    assert changed == trained
    query = "encoder/layer_1/attention/query/kernel"
    np.testing.assert_array_equal(after[query], kernels[query])
    assert after[query].dtype == np.int8


def test_int8_outputs_are_those_of_peft():
    """x W is computed in int8 as before, x A B in float."""
    encoder = random_encoder()
    encoder.quantize("int8")
    encoder.enable_lora(2, "query", lora_alpha=3.0)
    fill(encoder)
    layer = encoder.encoder_layers[0].attention.query
    x = np.random.default_rng(0).normal(size=(5, 24)).astype("float32")
    a, b = np.array(layer.lora_kernel_a), np.array(layer.lora_kernel_b)
    found = np.asarray(layer(x))
    layer.lora_kernel_b.assign(np.zeros_like(b))
    np.testing.assert_allclose(found, np.asarray(layer(x)) + 1.5 * x @ a @ b, atol=1e-5)


def test_int8_saves_float_kernels(tmp_path):
    model = quantized()
    model.enable_lora(2, lora_alpha=3.0)
    before = values(fill(model))
    kb.save(model, tmp_path / "model")
    saved = load_file(tmp_path / "model" / "weights.safetensors")
    for index in range(3):
        name = f"encoder/layer_{index}/attention/query"
        a, b = (before[f"{name}/{factor}"] for factor in FACTORS)
        expected = before[f"{name}/kernel"] / before[f"{name}/kernel_scale"] + 1.5 * a @ b
        np.testing.assert_allclose(saved[f"{name}/kernel"], expected, atol=1e-5)
    for name, value in values(model).items():
        np.testing.assert_array_equal(value, before[name])
    loaded, plain = kb.load(tmp_path / "model"), classifier()
    assert values(loaded).keys() == values(plain).keys()


def test_int8_merges_to_int8():
    """Each weight moves by at most half a step of int8 from W + α/r · A B."""
    model = quantized()
    model.enable_lora(2, lora_alpha=3.0)
    fill(model)
    layer = model.encoder.encoder_layers[0].attention.query
    a, b = np.array(layer.lora_kernel_a), np.array(layer.lora_kernel_b)
    exact = np.array(layer._kernel) / np.array(layer.kernel_scale) + 1.5 * a @ b
    model.merge_lora()
    assert layer._kernel.dtype == "int8"
    assert not layer._kernel.trainable
    merged = np.array(layer._kernel) / np.array(layer.kernel_scale)
    assert (np.abs(merged - exact) * np.array(layer.kernel_scale)).max() <= 0.501


def test_int8_adapters_round_trip(tmp_path):
    model = quantized()
    model.enable_lora(2)
    fill(model).save_lora_weights(tmp_path / "adapters.safetensors")
    other = quantized(seed=0)
    other.load_lora_weights(tmp_path / "adapters.safetensors")
    np.testing.assert_array_equal(outputs(other), outputs(model))


def test_other_quantizations_are_refused():
    model = classifier()
    model.quantize("int4")
    with pytest.raises(kb.InputError, match="quantized to int4, but adapters need float weights"):
        model.enable_lora(2)


PROGRAM = """
import sys
import keras, numpy as np
import keras_bert as kb

assert keras.backend.backend() == "jax"
directory = sys.argv[1]
model = kb.load(directory + "/model")
inputs = dict(np.load(directory + "/inputs.npz"))
model.load_lora_weights(directory + "/adapters.safetensors")
adapted = np.asarray(model(inputs))
model.compile(keras.optimizers.Adam(3e-2), model.default_loss())
frozen = np.array(model.encoder.encoder_layers[0].attention.query._kernel)
losses = model.fit(inputs, np.array([0, 1, 2]), epochs=40, verbose=0).history["loss"]
assert losses[-1] < 0.5 * losses[0], losses
assert np.array_equal(frozen, model.encoder.encoder_layers[0].attention.query._kernel)
trained = np.asarray(model(inputs))
kb.save(model, directory + "/trained")
model.merge_lora()
merged = np.asarray(model(inputs))
np.savez(directory + "/outputs.npz", adapted=adapted, trained=trained, merged=merged)
assert "keras_bert.text" not in sys.modules
"""


@pytest.mark.sweep
def test_on_jax(tmp_path):
    model = classifier(hidden_dropout=0.0, attention_dropout=0.0)
    kb.save(model, tmp_path / "model")
    np.savez(tmp_path / "inputs.npz", **padded_batch())
    model.enable_lora(2)
    fill(model).save_lora_weights(tmp_path / "adapters.safetensors")
    run_on_jax(PROGRAM, str(tmp_path))
    found = np.load(tmp_path / "outputs.npz")
    np.testing.assert_allclose(found["adapted"].ravel(), outputs(model), atol=2e-5)
    np.testing.assert_allclose(found["merged"], found["trained"], atol=1e-5)
    trained = outputs(kb.load(tmp_path / "trained"))
    np.testing.assert_allclose(found["trained"].ravel(), trained, atol=2e-5)
