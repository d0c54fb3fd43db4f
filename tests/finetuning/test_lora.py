"""Fine-tuning of low-rank adapters with `Recipe(lora_rank=...)`."""

import keras
import numpy as np
import pytest
from safetensors.numpy import load_file

import keras_bert as kb
from keras_bert.checkpoints.variables import named_variables
from keras_bert.finetuning import Recipe, fine_tune, resume, training
from keras_bert.finetuning.optimizer import learning_rate_multipliers
from keras_bert.layers.lora import adapted_layers
from tests.finetuning import tiny
from tests.marks import others_swept

RECIPE = Recipe(epochs=4, batch_size=8, learning_rate=2e-2, lora_rank=2)
FACTORS = ("lora_kernel_a", "lora_kernel_b")


def values(model):
    return {name: np.array(weight) for name, weight in named_variables(model).items()}


def classifier(quantize=None, **options):
    model = tiny.classifier(options)
    if quantize:
        model.quantize(quantize)
    return model


def run(model, output=None, validate=True, **changes):
    recipe = RECIPE.model_copy(update=changes)
    validation = tiny.opinions(20) if validate else None
    return fine_tune(model, tiny.opinions(), validation, recipe=recipe, output=output, verbose=0)


def outputs(model):
    return np.asarray(model(model.preprocessor(["the film was good", "a poor book"])))


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_adapters_and_head_learn(quantize, tmp_path):
    model = classifier(quantize)
    before = values(model)
    result = run(model, tmp_path, epochs=8)
    assert result.validation["accuracy"] > 0.95
    after = values(model)
    changed = {n for n in after if n not in before or not np.array_equal(before[n], after[n])}
    trained = {name for name, weight in named_variables(model).items() if weight.trainable}
    ends = {*FACTORS, "kernel", "bias", "gamma", "beta"}
    assert {name.rpartition("/")[2] for name in trained} == ends
    assert changed == trained
    loaded = kb.load(tmp_path / "model")
    assert not adapted_layers(loaded)
    # Kernels of int8 are saved as float32. Only the rounding of activations is missing.
    tolerance = 0.05 if quantize else 1e-6
    np.testing.assert_allclose(outputs(loaded), outputs(model), atol=tolerance)
    adapters = tmp_path / "adapters.safetensors"
    model.save_lora_weights(adapters)
    other = classifier(quantize)
    other.load_lora_weights(adapters)
    np.testing.assert_allclose(outputs(other), outputs(model), atol=1e-6)


def test_the_optimizer_has_no_state_for_the_matrices_of_the_encoder():
    model = classifier()
    run(model, epochs=1)
    slots = [v.path.replace("_momentum", "") for v in model.optimizer.variables if "_mom" in v.path]
    # six adapters; biases; normalizations of the embeddings and after both blocks; pooler; head
    assert len(slots) == 6 * 2 + 6 + 3 * 2 + 2 + 2


@pytest.mark.parametrize(
    ("quantize", "epoch", "validate"),
    others_swept([(None, 2, True), ("int8", 2, True), (None, 3, False), (None, 1, True)], quick=2),
)
def test_an_interrupted_run_continues_to_the_same_bits(
    quantize, epoch, validate, tmp_path, monkeypatch
):
    """In this run, epoch 1 is the best, so its weights are kept beside the last epoch's."""
    measure = training._Split.measure
    scores = {1: 0.9, 2: 0.5, 3: 0.4, 4: 0.3}

    def measured(split, job, model, *others):
        metrics = measure(split, job, model, *others)
        done = int(model.optimizer.iterations) * 8 // 64
        return {**metrics, "accuracy": scores[done]}

    monkeypatch.setattr(training._Split, "measure", measured)
    whole = classifier(quantize)
    run(whole, tmp_path / "whole", validate)
    with tiny.interrupted(monkeypatch, epoch):
        run(classifier(quantize), tmp_path / "out", validate)
    saved = load_file(tmp_path / "out" / "unfinished" / "weights.safetensors")
    assert any(name.endswith(FACTORS) for name in saved)
    keras.utils.set_random_seed(17)  # adapters depend on the recipe's seed only
    continued = classifier(quantize)
    result = run(continued, tmp_path / "out", validate)
    assert [entry["epoch"] for entry in result.history] == [1, 2, 3, 4]
    assert result.best_epoch == (1 if validate else 4)
    expected = values(whole)
    assert expected.keys() == values(continued).keys()
    for name, value in values(continued).items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
    one, two = (load_file(tmp_path / d / "model" / "weights.safetensors") for d in ("whole", "out"))
    for name, value in one.items():
        np.testing.assert_array_equal(two[name], value, err_msg=name)
    texts = [(tmp_path / d / "history.jsonl").read_text() for d in ("whole", "out")]
    assert texts[0] == texts[1]


def test_a_run_with_another_rank_begins_anew(tmp_path):
    def name(**changes):
        model, recipe = classifier(), RECIPE.model_copy(update=changes)
        if recipe.lora_rank:
            model.enable_lora(recipe.lora_rank, seed=changes.get("seed"))
        return resume.run_of(model, recipe, [])

    assert name() == name()  # with other random factors
    assert len({name(), name(lora_rank=None), name(lora_rank=3)}) == 3


def test_adapters_that_the_model_has_are_trained(tmp_path):
    model = classifier()
    model.enable_lora(3, ("key", "output"))
    before = values(model)
    run(model, epochs=1, lora_rank=None)
    run(model, epochs=1, lora_rank=3)
    names = {layer.path for layer in adapted_layers(model)}
    assert {name.rpartition("/")[2] for name in names} == {"key", "output"}
    after = values(model)
    changed = {name for name in after if not np.array_equal(before[name], after[name])}
    assert changed == {name for name, weight in named_variables(model).items() if weight.trainable}
    with pytest.raises(kb.InputError, match="lora_rank is 2, but the model has adapters of rank 3"):
        run(model)


def test_frozen_layers_have_frozen_adapters():
    model = classifier(num_layers=2)
    run(model, epochs=1, frozen_layers=1)
    low, high = (layer.attention.query for layer in model.encoder.encoder_layers)
    assert not np.any(low.lora_kernel_b)
    assert np.any(high.lora_kernel_b)
    # The run is over: only the frozen base stays frozen.
    assert low.lora_kernel_b.trainable
    assert not low._kernel.trainable
    assert not model.encoder.embeddings.token_embedding.trainable


@pytest.mark.parametrize("pooling", ["pooled", "mean"])
def test_after_a_run_the_base_is_still_frozen(pooling):
    model = tiny.classifier(pooling=pooling)
    model.enable_lora(2)
    before = {name for name, weight in named_variables(model).items() if weight.trainable}
    assert any("pooler" in name for name in before) == (pooling == "pooled")
    run(model, epochs=1, frozen_layers=-1)
    after = {name for name, weight in named_variables(model).items() if weight.trainable}
    assert after == before


def test_all_layers_frozen_is_refused():
    model = classifier()
    with pytest.raises(kb.InputError, match="frozen_layers is 1, so no layer with an adapter is"):
        run(model, frozen_layers=1)


def test_layer_decay_reaches_the_adapters():
    model = classifier(num_layers=2)
    model.enable_lora(2)
    multipliers = learning_rate_multipliers(model, 0.5)
    for index, expected in enumerate((0.25, 0.5)):
        path = model.encoder.encoder_layers[index].attention.value.lora_kernel_a.path
        assert multipliers[path] == expected
    run(model, epochs=1, layer_decay=0.5)


def test_weight_decay_shrinks_adapters_and_never_the_base():
    """With a learning rate but no gradient in A, as B is 0, only the decay moves A."""

    def first_factor(weight_decay):
        model = classifier()
        base = np.array(model.encoder.encoder_layers[0].attention.query.kernel)
        run(model, epochs=1, weight_decay=weight_decay, warmup=0.0)
        query = model.encoder.encoder_layers[0].attention.query
        np.testing.assert_array_equal(np.array(query._kernel), base)
        return np.linalg.norm(query.lora_kernel_a)

    assert first_factor(5.0) < 0.8 * first_factor(0.0)


@pytest.mark.parametrize("rank", [0, 2.5])
def test_a_rank_out_of_range(rank):
    with pytest.raises(kb.InputError, match=f"lora_rank is {rank}, but must be"):
        Recipe(lora_rank=rank)


def test_a_refused_run_adds_no_adapters(tmp_path):
    model = classifier()
    with pytest.raises(kb.InputError, match="rank is 99, but the kernel of layer_0/attention"):
        run(model, tmp_path / "out", lora_rank=99)
    assert not adapted_layers(model)
    assert not any(tmp_path.iterdir())
