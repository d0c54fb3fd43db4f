import functools
import subprocess

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert.optimizers.distributed import AdamW
from keras_bert.optimizers.loss_scale import LossScale
from keras_bert.optimizers.schedules import WarmupLinearDecay
from keras_bert.optimizers.update_rules import decays
from keras_bert.pretraining.training.step import trainable_variables
from tests.adamw import adamw
from tests.marks import others_swept
from tests.pretraining import small

DEFAULT = tf.distribute.get_strategy()


def assert_close(first, second, tolerance=1e-6):
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_allclose(first[name], second[name], atol=tolerance, rtol=0, err_msg=name)


@pytest.fixture(scope="module", params=others_swept(small.COMPARED))
def objective(request):
    return request.param


def after_ten_steps(objective, **options):
    step = small.make_step(DEFAULT, objective=objective, **options)
    before = small.weights(step)
    result = small.train(step, objective=objective)
    return before, small.weights(step), result


@pytest.fixture(scope="module")
def ten_steps(objective):
    return after_ten_steps(objective)


@pytest.fixture(scope="module")
def two_replicas(tmp_path_factory, forks):
    """An objective to the directory of what two replicas do with it, written once."""

    @functools.cache
    def train(objective):
        path = tmp_path_factory.mktemp("replicas")
        command = [*forks.module("tests.pretraining.small"), "2", str(path), objective]
        subprocess.run(command, check=True, timeout=300)
        return path

    return train


@pytest.mark.slow
def test_two_replicas_train_as_one_device_does(objective, ten_steps, two_replicas):
    before, after, result = ten_steps
    assert result["gradient_norm"] > 0.05  # so clipping is active
    assert max(np.abs(after[name] - before[name]).max() for name in after) > 1e-2
    two = dict(np.load(two_replicas(objective) / "trained.npz"))
    np.testing.assert_allclose(two["sums"], result["sums"], rtol=1e-5)
    np.testing.assert_allclose(two["norm"], result["gradient_norm"], rtol=1e-5)
    assert_close({name: two[name] for name in after}, after)


@pytest.mark.slow
def test_replicas_drop_different_units(two_replicas):
    first, second = np.load(
        two_replicas(small.COMPARED[0]) / "dropped.npy"
    )  # of the same rows and weights
    assert abs(first - second).max() > 1e-2


@pytest.mark.parametrize(
    "options", others_swept([{"gradient_accumulation_steps": 4}, {"jit_compile": True}])
)
def test_micro_batches_and_xla_train_as_the_whole_batch_does(objective, ten_steps, options):
    _, weights, result = after_ten_steps(objective, **options)
    np.testing.assert_allclose(result["sums"], ten_steps[2]["sums"], rtol=1e-5)
    assert_close(weights, ten_steps[1])


def test_loss_and_gradient_are_those_of_the_formula():
    step = small.make_step(DEFAULT, global_clipnorm=None)
    (x, y, w) = next(small.batches(1))
    with tf.GradientTape() as tape:
        logits = step.model(x, training=False)
        losses = {
            head: keras.ops.sparse_categorical_crossentropy(y[head], logits[head], from_logits=True)
            for head in y
        }
        loss = sum(tf.reduce_sum(losses[h] * w[h]) / tf.reduce_sum(w[h]) for h in y)
    expected = tape.gradient(loss, list(step.optimizer.variables.values()))
    result = small.train(step, 1)
    sums = result["sums"].numpy()
    np.testing.assert_allclose((sums[:, 0] / sums[:, 2]).sum(), loss, rtol=1e-5)
    np.testing.assert_allclose(result["gradient_norm"], tf.linalg.global_norm(expected), rtol=1e-5)
    right = sum((logits["mlm_logits"].numpy().argmax(-1) == y["mlm_logits"]) * w["mlm_logits"])
    assert sums[0, 1] == right.sum()
    assert result["tokens"] == small.BATCH * small.LENGTH


def test_rows_that_fill_up_a_batch_are_no_text():
    step = small.make_step(DEFAULT, objective="distillation")
    x, y, w = next(small.batches(1, objective="distillation"))
    w = {head: weights * (np.arange(small.BATCH) < 5)[:, None] for head, weights in w.items()}
    result = step.train(small.distributed(DEFAULT, [(x, y, w)]), tf.constant(1))
    assert result["tokens"] == x["padding_mask"][:5].sum()


def test_gradient_of_the_embedding_adds_up_repeated_tokens():
    step = small.make_step(DEFAULT)
    x, y, w = tf.nest.map_structure(tf.constant, next(small.batches(1)))
    values = [tf.convert_to_tensor(v) for v in step.optimizer.variables.values()]
    total = tf.constant([1.0, 1.0])
    gradients, _ = step._forward_backward(values, (x, y, w), total, step._seeds(0, 0))
    names = list(step.optimizer.variables)
    index = names.index("encoder/embeddings/token_embedding")
    assert isinstance(gradients[index], tf.Tensor)

    # The same by finite differences, in one entry of a token that stands in many places.
    def loss(change):
        values[index] = values[index] + tf.scatter_nd([[6, 3]], [change], values[index].shape)
        sums = step._forward_backward(values, (x, y, w), total, step._seeds(0, 0))[1]
        values[index] = values[index] - tf.scatter_nd([[6, 3]], [change], values[index].shape)
        return float(tf.reduce_sum(sums[:, 0]))

    slope = (loss(1e-2) - loss(-1e-2)) / 2e-2
    assert gradients[index][6, 3].numpy() == pytest.approx(slope, rel=0.02, abs=1e-2)


def test_dropout_is_a_function_of_seed_step_part_and_replica():
    step = small.make_step(DEFAULT, dropout=0.1, gradient_accumulation_steps=2)
    keys = [step._seeds(replica, part).numpy() for replica in (0,) for part in (0, 1)]
    step.optimizer.iterations.assign(1)
    keys += [step._seeds(0, part).numpy() for part in (0, 1)]
    rows = np.concatenate(keys)
    assert len(step._seed_states) == 1 + 3 * 2
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_dropout_repeats_itself_and_changes_nothing_that_is_saved(objective, ten_steps):
    results = []
    for _ in range(2):
        step = small.make_step(DEFAULT, dropout=0.5, objective=objective)
        states = [state.numpy() for state in step._seed_states]
        small.train(step, objective=objective)
        for state, before in zip(step._seed_states, states, strict=True):
            np.testing.assert_array_equal(state.numpy(), before)
        results.append(small.weights(step))
    assert_close(*results, tolerance=0)
    with pytest.raises(AssertionError):
        assert_close(results[0], ten_steps[1], tolerance=1e-4)


def test_optimizer_is_that_of_the_paper():
    schedule = WarmupLinearDecay(1e-2, 3, 20)
    variables = trainable_variables(small.make_step(DEFAULT).model)
    optimizer = AdamW(variables, schedule, weight_decay=0.1)
    before, names = [v.numpy() for v in variables.values()], [*variables]
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.integers(-6, 1, len(names))  # small ones show where epsilon stands
    gradients = [
        [size * rng.normal(size=w.shape) for w, size in zip(before, sizes, strict=True)]
        for _ in range(5)
    ]
    for several in gradients:
        tensors = (tf.constant(gradient, tf.float32) for gradient in several)
        tf.function(DEFAULT.run)(optimizer.apply, args=(dict(zip(names, tensors, strict=True)),))
    assert int(optimizer.iterations) == 5
    expected = adamw(
        before,
        gradients,
        rates=[float(schedule(step)) for step in range(5)],
        multipliers=[1] * len(names),
        decays=[0.1 * decays(name) for name in names],
    )
    after = {n: v.numpy() for n, v in optimizer.variables.items()}
    assert_close(after, dict(zip(names, expected, strict=True)), 1e-5)


def test_what_overflows_at_any_scale_is_reported():
    scale = LossScale(4.0)
    step = small.make_step(DEFAULT, optimizer=functools.partial(AdamW, loss_scale=scale))
    weight = next(iter(step.optimizer.variables.values()))
    weight.assign(weight * np.inf)
    norms = [float(small.train(step, 1)["gradient_norm"]) for _ in range(3)]
    assert norms[:2] == [0, 0]  # at 4 and at 2: a smaller scale may help
    assert not np.isfinite(norms[2])
    assert scale.measures == {"loss_scale": 1, "skipped_steps": 3}


def test_what_decays():
    names = trainable_variables(small.make_step(DEFAULT).model)
    kept = [name for name in names if not decays(name)]
    assert all(name.endswith(("bias", "gamma", "beta")) for name in kept)
    assert all(name.endswith(("kernel", "embedding")) for name in names if decays(name))


def test_schedule():
    schedule = WarmupLinearDecay(1.0, 10, 110)
    rates = [float(schedule(step)) for step in (0, 1, 9, 10, 60, 109, 110)]
    np.testing.assert_allclose(rates, [0.0, 0.1, 0.9, 1.0, 0.5, 0.01, 0.0], atol=1e-6)
    assert float(WarmupLinearDecay(1.0, 0, 4)(0)) == 1.0
