import keras
import numpy as np
import pytest

from keras_bert.finetuning.batching import batches, epoch_batches, length_step, plan_batches
from keras_bert.finetuning.jobs import PerRow, PerToken
from keras_bert.layers.crf import IGNORED
from keras_bert.text.rows import Rows

PAD = 9


def rows(lengths, group=1, longest=40):
    """The token ids of row r are 100 r, 100 r + 1, ..."""
    ids = np.concatenate([100 * row + np.arange(length) for row, length in enumerate(lengths)])
    return Rows(
        flat={"token_ids": ids.astype(np.int32), "segment_ids": (ids % 2).astype(np.int32)},
        splits=np.cumsum([0, *lengths]),
        sample_ids=(np.arange(len(lengths)) // group).astype(np.int32),
        pad_id=PAD,
        longest=longest,
        group=group,
    )


def lengths(count, seed=0):
    return np.random.default_rng(seed).geometric(0.1, count).clip(2, 40)


def made(rows, targets, weights=None, **options):
    plan = plan_batches(
        rows, targets, weights, **{"batch_size": 8, "epochs": range(1), "seed": 0} | options
    )
    return [keras.tree.map_structure(np.asarray, batch) for batch in batches(rows, targets, plan)]


def indices(batches):
    return [y.tolist() for _, y, _ in batches]


@pytest.mark.parametrize("length_buckets", [True, False])
def test_every_epoch_has_every_example_once_in_an_order_of_its_own(length_buckets):
    data, numbers = rows(lengths(203)), PerRow(np.arange(203))
    options = {"length_buckets": length_buckets}
    both = indices(made(data, numbers, epochs=range(2), **options))
    first, second = both[:26], both[26:]
    assert sorted(np.concatenate(first)) == sorted(np.concatenate(second)) == list(range(203))
    assert first != second
    assert indices(made(data, numbers, epochs=range(2), **options)) == both
    assert indices(made(data, numbers, epochs=[1], **options)) == second  # resumed after one
    assert indices(made(data, numbers, seed=1, **options)) != first


def test_batches_hold_what_rows_padded_gives():
    data, numbers = rows(lengths(60)), PerRow({"a": np.arange(60), "b": np.ones((60, 3))})
    for inputs, targets, weights in made(data, numbers):
        expected = data.padded(targets["a"], multiple=length_step())
        assert inputs.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(inputs[name], array)
            assert inputs[name].dtype == np.int32
        assert targets["b"].shape == (len(targets["a"]), 3)
        assert weights.tolist() == [1] * len(targets["a"])


def test_length_buckets_save_padding_and_begin_with_the_longest():
    sizes = lengths(8000)
    rng = np.random.default_rng(0)

    def padded(batches):
        return sum(len(batch) * sizes[batch].max() for batch in batches)

    buckets = epoch_batches(sizes, 32, rng)
    random = epoch_batches(sizes, 32, rng, length_buckets=False)
    waste = [1 - sizes.sum() / padded(each) for each in (buckets, random)]
    assert waste[0] < 0.05
    assert waste[1] > 0.5
    assert sizes[buckets[0]].max() == sizes.max()
    longest = [sizes[batch].max() for batch in buckets[1:]]
    rises = np.diff(longest) > 0  # sorted, there were 4 of them in 250 batches
    assert 0.3 < rises.mean() < 0.7


def test_texts_of_a_small_set_save_padding_and_meet_others_in_the_next_epoch():
    sizes, rng = lengths(320), np.random.default_rng(0)
    first, second = (epoch_batches(sizes, 32, rng) for _ in range(2))
    shared = [max(len(np.intersect1d(batch, other)) for other in second) for batch in first]
    assert np.mean(shared) < 16  # of 32; without noise, some 25
    padded = sum(len(batch) * sizes[batch].max() for batch in first)
    assert 1 - sizes.sum() / padded < 0.35  # in pools of a quarter of the texts, 0.54


def test_a_smaller_batch_has_short_and_long_texts():
    sizes, rng = lengths(257), np.random.default_rng(0)
    epochs = [epoch_batches(sizes, 32, rng) for _ in range(50)]
    assert {len(batches[0]) for batches in epochs} == {32}
    lone = [sizes[batch[0]] for batches in epochs for batch in batches if len(batch) == 1]
    assert len(lone) == 50
    assert 0.2 < np.mean(lone > np.median(sizes)) < 0.8  # cut off at the end, 0


def test_rows_in_groups_stay_together():
    data = rows(lengths(30), group=3)
    for inputs, targets, _ in made(data, PerRow(np.arange(10)), batch_size=4):
        ids = inputs["token_ids"]
        assert ids.shape[:2] == (len(targets), 3)
        assert (ids[:, :, 0] // 100 == 3 * targets[:, None] + np.arange(3)).all()
        assert (inputs["padding_mask"].sum(axis=2) == data.lengths.reshape(10, 3)[targets]).all()


def test_targets_of_tokens_are_padded_with_ignored():
    data = rows(lengths(20))
    targets = PerToken(data.flat["token_ids"] + 1000)
    for inputs, values, _ in made(data, targets):
        expected = np.where(inputs["padding_mask"] == 1, inputs["token_ids"] + 1000, IGNORED)
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize(("replicas", "accumulation"), [(1, 1), (1, 3), (2, 1), (2, 2)])
@pytest.mark.parametrize("kind", ["row", "token", "token_by_row"])
def test_the_mean_over_the_parts_is_the_loss_of_the_batch(replicas, accumulation, kind):
    sizes = lengths(21)
    data = rows(sizes)
    rng = np.random.default_rng(1)
    importance = rng.uniform(0.5, 2, 21).astype(np.float32)
    if kind == "row":
        targets = PerRow(rng.integers(0, 3, 21))
    else:
        values = rng.integers(IGNORED, 3, len(data.flat["token_ids"])).astype(np.int32)
        targets = PerToken(values, mean="tokens" if kind == "token" else "rows")
    plan = {"replicas": replicas, "gradient_accumulation_steps": accumulation, "batch_size": 8}
    table = rng.normal(size=(2100, 3)).astype(np.float32)

    def loss(inputs, targets, weights):
        ids = inputs["token_ids"]
        logits = table[ids[:, 0] if kind == "row" else ids]
        if kind == "token_by_row":  # as a likelihood of sentences
            picked = np.take_along_axis(logits, targets.clip(0)[..., None], -1)[..., 0]
            return float((weights * (picked * (targets != IGNORED)).sum(axis=1)).mean())
        ignore = IGNORED if kind == "token" else None
        function = keras.losses.SparseCategoricalCrossentropy(True, ignore_class=ignore)
        return float(function(targets, logits, weights))

    parts = []
    for inputs, values, weights in made(data, targets, importance, **plan):
        for part in range(replicas):
            share = slice(part * len(weights) // replicas, (part + 1) * len(weights) // replicas)
            cut = {name: array[share] for name, array in inputs.items()}
            parts.append(loss(cut, values[share], weights[share]))
    whole = [loss(*batch) for batch in made(data, targets, importance, batch_size=8)]
    means = np.reshape(parts, (len(whole), -1)).mean(axis=1)
    np.testing.assert_allclose(means, whole, rtol=1e-5)
