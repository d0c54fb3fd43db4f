import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert.errors import InputError
from keras_bert.finetuning import Recipe, fine_tune
from keras_bert.finetuning.freezing import frozen
from keras_bert.finetuning.optimizer import adamw, learning_rate_multipliers
from keras_bert.optimizers.keras_adamw import KerasAdamW
from keras_bert.optimizers.schedules import WarmupLinearDecay
from tests.adamw import adamw as adamw_of_the_paper
from tests.finetuning import tiny
from tests.marks import others_swept

PATHS = ("encoder/embeddings/token", "encoder/layer_0/kernel", "classifier/bias")


def variables(seed=0):
    rng = np.random.default_rng(seed)
    made = []
    for path, shape in zip(PATHS, [(5, 3), (3, 3), (3,)], strict=True):
        made.append(keras.Variable(rng.normal(size=shape), name=path.split("/")[-1]))
        made[-1]._path = path
    return made


@pytest.mark.parametrize("graph", [True, False])
def test_updates_equal_the_paper_with_rates_by_layer(graph):
    trained, rng = variables(), np.random.default_rng(1)
    # Small ones show where epsilon stands.
    sizes = [1e-5, 1.0, 1.0]
    gradients = [
        [size * rng.normal(size=v.shape) for size, v in zip(sizes, trained, strict=True)]
        for _ in range(6)
    ]
    multipliers = {PATHS[0]: 0.25, PATHS[1]: 0.5}
    schedule = WarmupLinearDecay(1e-1, 2, 6)
    optimizer = KerasAdamW(
        schedule,
        learning_rate_multipliers=multipliers,
        weight_decay=0.1,
        global_clipnorm=1.5,
    )
    optimizer.build(trained)
    expected = adamw_of_the_paper(
        [v.numpy() for v in trained],
        gradients,
        rates=[0.0, 0.05, 0.1, 0.075, 0.05, 0.025],
        multipliers=(0.25, 0.5, 1),
        decays=(0.1, 0.1, 0),
        clip=1.5,
    )

    def step(several):
        optimizer.apply(several, trained)

    step = tf.function(step) if graph else step
    for several in gradients:
        step([tf.constant(gradient, tf.float32) for gradient in several])
    for variable, weights in zip(trained, expected, strict=True):
        np.testing.assert_allclose(variable.numpy(), weights, atol=1e-6)


def test_config_makes_the_same_optimizer():
    optimizer = KerasAdamW(
        WarmupLinearDecay(1e-1, 2, 6), learning_rate_multipliers={"a": 0.5}, weight_decay=0.2
    )
    again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
    assert type(again) is KerasAdamW
    assert again.get_config() == optimizer.get_config()


def test_the_multiplier_of_a_layer_falls_with_the_layers_above():
    model = tiny.classifier({"num_layers": 3})
    multipliers = learning_rate_multipliers(model, 0.5)
    variables = kb.checkpoints.variables.named_variables(model)
    assert {variable.path for variable in model.trainable_variables} <= multipliers.keys()
    expected = {
        "classifier/": 1,
        "encoder/pooler/": 1,
        "encoder/layer_2/": 0.5,
        "encoder/layer_1/": 0.25,
        "encoder/layer_0/": 0.125,
        "encoder/embeddings/": 0.0625,
    }
    for name, variable in variables.items():
        [multiplier] = [m for start, m in expected.items() if name.startswith(start)]
        assert multipliers[variable.path] == multiplier, name
    optimizer = adamw(model, Recipe(layer_decay=0.5), 10)
    assert optimizer.learning_rate_multipliers == multipliers


def test_a_crf_has_a_rate_of_its_own():
    model = kb.TokenClassifier(tiny.encoder(), 3, crf=True)
    recipe = Recipe(layer_decay=0.5, crf_rate=70)
    multipliers = adamw(model, recipe, 10).learning_rate_multipliers
    assert [multipliers[variable.path] for variable in model.crf.variables] == [70] * 3
    assert sorted(set(multipliers.values()))[-2:] == [1, 70]


def test_a_crf_in_a_model_of_another_dtype():
    encoder = kb.Encoder(tiny.encoder().config.replace(pooler=False), dtype="float64")
    model = kb.TokenClassifier(encoder, 3, crf=True)
    optimizer, inputs = KerasAdamW(1e-3, global_clipnorm=1e-3), {"token_ids": np.ones((2, 4), int)}
    model.compile(optimizer, model.default_loss())
    model.train_on_batch(inputs, np.zeros((2, 4), int))
    # As gradients are clipped, the first moment's norm is (1 - beta_1) times 1e-3.
    moments = [tf.cast(moment.value, tf.float64) for moment in optimizer._momentums]
    assert float(tf.linalg.global_norm(moments)) == pytest.approx(1e-4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_too_coarse_for_moments(dtype):
    model = kb.SequenceClassifier(kb.Encoder(tiny.encoder().config, dtype=dtype), 2)
    model.compile(KerasAdamW(1e-3), model.default_loss())
    with pytest.raises(InputError, match=f"is {dtype}, which is too coarse"):
        model.fit({"token_ids": np.ones((2, 4), int)}, np.zeros(2, int), verbose=0)


def changed(before, after):
    return {name for name in before if not np.array_equal(before[name], after[name])}


def weights(model):
    names = kb.checkpoints.variables.named_variables(model)
    return {name: variable.numpy() for name, variable in names.items()}


@pytest.mark.parametrize(
    ("layers", "kept"), [(1, ("embeddings", "layer_0")), (-1, ("embeddings",))]
)
def test_frozen_layers_keep_their_weights(layers, kept):
    model = tiny.classifier({"num_layers": 2})
    before = weights(model)
    fine_tune(model, tiny.opinions(), recipe=Recipe(epochs=1, frozen_layers=layers), verbose=0)
    same = before.keys() - changed(before, weights(model))
    frozen_names = {name for name in before if name.split("/")[1] in kept}
    assert frozen_names <= same
    # A key's bias changes nothing in the softmax.
    assert all(name.endswith("key/bias") for name in same - frozen_names)
    assert len(model.trainable_variables) == len(before)


def test_a_pooler_without_use_is_left_alone(caplog, recwarn):
    model = tiny.classifier(pooling="mean")
    pooler = [variable.numpy() for variable in model.encoder.pooler.variables]
    fine_tune(model, tiny.opinions(), recipe=Recipe(epochs=1), verbose=0)
    assert not [warning for warning in recwarn if "Gradients" in str(warning.message)]
    assert "Gradients do not exist" not in caplog.text
    for variable, before in zip(model.encoder.pooler.variables, pooler, strict=True):
        np.testing.assert_array_equal(variable, before)
        assert variable.trainable


def test_more_layers_than_there_are_cannot_be_frozen():
    with (
        pytest.raises(InputError, match="frozen_layers is 2, but the encoder has 1"),
        frozen(tiny.classifier(), 2),
    ):
        pass


@pytest.mark.parametrize("accumulation", others_swept([3, 4]))
def test_accumulation_equals_the_large_batch(accumulation):
    recipe = {"epochs": 3, "batch_size": 12, "learning_rate": 1e-2, "global_clipnorm": 0.1}
    results = []
    for parts in (1, accumulation):
        model = tiny.classifier(tiny.NO_DROPOUT)
        history = fine_tune(
            model,
            tiny.opinions(),
            recipe=Recipe(gradient_accumulation_steps=parts, **recipe),
            verbose=0,
        ).history
        results.append((weights(model), [entry["loss"] for entry in history]))
    for name, value in results[0][0].items():
        np.testing.assert_allclose(value, results[1][0][name], atol=2e-5, err_msg=name)
    assert model.optimizer.iterations == 18  # not of micro-batches: 6 batches, 3 times


@pytest.mark.parametrize("policy", others_swept(["mixed_bfloat16", "mixed_float16"]))
def test_mixed_precision_learns(policy):
    model = tiny.classifier({"dtype": policy})
    assert model.dtype_policy.name == policy
    result = fine_tune(
        model,
        tiny.opinions(),
        tiny.opinions(),
        recipe=Recipe(epochs=10, batch_size=8, learning_rate=1e-2, gradient_accumulation_steps=2),
        verbose=0,
    )
    assert result.validation["accuracy"] > 0.95
    assert all(variable.dtype == "float32" for variable in model.trainable_variables)
    scaled = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    assert scaled == (policy == "mixed_float16")
