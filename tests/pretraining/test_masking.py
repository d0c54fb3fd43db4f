import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.errors import InputError
from keras_bert.pretraining.masking import TokenMasking, slots_for

PAD, MASK, SPECIAL, SIZE = 0, 4, (0, 1, 2, 3, 4), 1000
CONTINUES = np.arange(SIZE) >= 600


def masking(**options):
    return TokenMasking(mask_id=MASK, special_ids=SPECIAL, is_continuation=CONTINUES, **options)


def batch(seed=0, rows=64, length=128):
    """[CLS] tokens [SEP] tokens [SEP] [PAD]..., of random lengths; both parts begin with a word."""
    rng = np.random.default_rng(seed)
    ids = np.full((rows, length), PAD, np.int32)
    for row in ids:
        size = rng.integers(4, length)
        row[1:size] = rng.integers(len(SPECIAL), SIZE, size - 1)
        row[0], row[size] = 2, 3
        split = rng.integers(2, size)
        row[split] = 3
        row[[1, min(split + 1, size - 1)]] = 5
        row[split] = 3
    return ids


def apply(ids, epoch=0, examples=None, **options):
    examples = np.arange(len(ids)) if examples is None else examples
    result = masking(**options)(tf.constant(ids), epoch, tf.constant(examples))
    return {name: value.numpy() for name, value in result.items()}


def chosen_positions(result):
    """Pairs of row and position."""
    row, slot = np.nonzero(result["weights"])
    return row, result["positions"][row, slot]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**31 - 1),
    rate=st.floats(0.01, 0.6),
    slots=st.integers(1, 40),
    whole_words=st.booleans(),
)
def test_invariants(seed, rate, slots, whole_words):
    ids = batch(seed % 7, rows=8, length=40)
    result = apply(ids, rate=rate, slots=slots, whole_words=whole_words, seed=seed)
    assert result["positions"].shape == (8, min(slots, 40))
    row, position = chosen_positions(result)
    assert not np.isin(ids[row, position], SPECIAL).any()
    assert len(set(zip(row, position, strict=True))) == len(row)
    labels = result["labels"][result["weights"] > 0]
    np.testing.assert_array_equal(labels, ids[row, position])
    changed = result["token_ids"] != ids
    untouched = np.ones_like(changed)
    untouched[row, position] = False
    assert not (changed & untouched).any()
    assert not result["labels"][result["weights"] == 0].any()
    assert not np.isin(result["token_ids"][changed], [i for i in SPECIAL if i != MASK]).any()
    maskable = (~np.isin(ids, SPECIAL)).sum(1)
    count = result["weights"].sum(1)
    assert (count <= np.maximum(np.ceil(rate * maskable), 1)).all()


@pytest.mark.parametrize("whole_words", [False, True])
def test_shares(whole_words):
    ids = batch(rows=4096)
    result = apply(ids, whole_words=whole_words)
    row, position = chosen_positions(result)
    maskable = ~np.isin(ids, SPECIAL)
    long = maskable.sum(1) > 20  # short rows have one at least
    share = result["weights"].sum(1)[long].sum() / maskable[long].sum()
    assert share == pytest.approx(0.15, abs=0.001)
    put, label = result["token_ids"][row, position], ids[row, position]
    assert np.mean(put == MASK) == pytest.approx(0.8, abs=0.006)
    assert np.mean(put == label) == pytest.approx(0.1, abs=0.006)
    random = put[(put != MASK) & (put != label)]
    assert random.mean() == pytest.approx((len(SPECIAL) + SIZE) / 2, rel=0.03)
    assert len(np.unique(random)) > 0.8 * SIZE


def test_every_position_is_as_likely():
    ids = np.full((8192, 34), 7, np.int32)
    ids[:, 0], ids[:, -1] = 2, 3
    result = apply(ids, slots=slots_for(0.15, 34))
    _, position = chosen_positions(result)
    shares = np.bincount(position, minlength=34) / len(ids)
    np.testing.assert_allclose(shares[1:-1], 0.15, atol=0.018)


def words_of(ids):
    """Number of the word of each position."""
    return np.cumsum(~CONTINUES[ids] | np.isin(ids, SPECIAL), axis=1)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.02, 0.5), st.integers(1, 30))
def test_whole_words_are_never_split(seed, rate, slots):
    ids = batch(seed, rows=8, length=48)
    result = apply(ids, whole_words=True, rate=rate, slots=slots, seed=seed)
    masked = np.zeros(ids.shape, bool)
    masked[chosen_positions(result)] = True
    words = words_of(ids)
    for row in range(len(ids)):
        for word in np.unique(words[row]):
            assert len(set(masked[row][words[row] == word])) == 1


def test_the_batch_makes_no_difference():
    ids = batch(rows=60)
    whole = apply(ids, whole_words=True)
    for part in (slice(0, 7), slice(7, 60)):
        other = apply(ids[part], examples=np.arange(60)[part], whole_words=True)
        for name, value in whole.items():
            np.testing.assert_array_equal(value[part], other[name])


def test_epoch_example_and_seed_make_a_difference():
    ids = batch(rows=32)
    first = apply(ids)["positions"]
    for other in (apply(ids, epoch=1), apply(ids, seed=1), apply(ids, examples=np.arange(32) + 99)):
        assert (first != other["positions"]).any(axis=1).mean() > 0.9


def test_nothing_to_mask():
    result = apply(np.array([[2, 3, 0, 0]], np.int32), examples=np.array([0]))
    assert not result["weights"].any()
    np.testing.assert_array_equal(result["token_ids"], [[2, 3, 0, 0]])


def test_slots():
    assert slots_for(0.15, 128) == 20
    assert slots_for(0.15, 512) == 77


@pytest.mark.parametrize("options", [{"rate": 0.0}, {"rate": 1.0}, {"slots": 0}])
def test_bad_options(options):
    with pytest.raises(InputError):
        masking(**options)
