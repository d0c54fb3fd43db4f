import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.errors import InputError
from keras_bert.pretraining.data.masking import (
    MASKING_UNITS,
    TokenMasking,
    max_predictions,
    score_words,
)
from keras_bert.pretraining.data.random_bits import random_bits, uniform

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
    max_predictions_per_seq=st.integers(1, 40),
    unit=st.sampled_from(sorted(MASKING_UNITS)),
)
def test_invariants(seed, rate, max_predictions_per_seq, unit):
    ids = batch(seed % 7, rows=8, length=40)
    result = apply(
        ids, rate=rate, max_predictions_per_seq=max_predictions_per_seq, unit=unit, seed=seed
    )
    assert result["positions"].shape == (8, min(max_predictions_per_seq, 40))
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


@pytest.mark.parametrize("unit", MASKING_UNITS)
def test_ratios(unit):
    ids = batch(rows=8192)
    result = apply(ids, unit=unit)
    row, position = chosen_positions(result)
    maskable = ~np.isin(ids, SPECIAL)
    long = maskable.sum(1) > 20  # short rows have one at least
    ratio = result["weights"].sum(1)[long].sum() / maskable[long].sum()
    assert ratio == pytest.approx(0.15, abs=0.001)
    put, label = result["token_ids"][row, position], ids[row, position]
    # Where one draw decides for a span, fewer draws are made.
    tolerance = 0.012 if unit == "span" else 0.005
    assert np.mean(put == MASK) == pytest.approx(0.8, abs=tolerance)
    assert np.mean(put == label) == pytest.approx(0.1, abs=tolerance)
    random = put[(put != MASK) & (put != label)]
    assert random.mean() == pytest.approx((len(SPECIAL) + SIZE) / 2, rel=0.03)
    assert len(np.unique(random)) > 0.8 * SIZE


@pytest.mark.parametrize("unit", MASKING_UNITS)
@pytest.mark.parametrize("replacement", [(1.0, 0.0), (0.85, 0.0), (0.0, 0.5)])
def test_other_replacements(unit, replacement):
    ids = batch(rows=4096)
    result = apply(ids, unit=unit, replacement=replacement)
    row, position = chosen_positions(result)
    put, label = result["token_ids"][row, position], ids[row, position]
    random = np.mean((put != MASK) & (put != label))
    for ratio, expected in zip((np.mean(put == MASK), random), replacement, strict=True):
        assert ratio == pytest.approx(expected, abs=0.015 if 0 < expected < 1 else 1e-9)


def test_every_position_is_as_likely():
    ids = np.full((8192, 34), 7, np.int32)
    ids[:, 0], ids[:, -1] = 2, 3
    result = apply(ids, max_predictions_per_seq=max_predictions(0.15, 34))
    _, position = chosen_positions(result)
    ratios = np.bincount(position, minlength=34) / len(ids)
    np.testing.assert_allclose(ratios[1:-1], 0.15, atol=0.018)


def words_of(ids):
    """Number of the word of each position."""
    return np.cumsum(~CONTINUES[ids] | np.isin(ids, SPECIAL), axis=1)


def masked_tokens(ids, result):
    masked = np.zeros(ids.shape, bool)
    masked[chosen_positions(result)] = True
    return masked


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["word", "ngram", "span"]),
    st.integers(0, 10**6),
    st.floats(0.02, 0.5),
    st.integers(1, 30),
)
def test_words_are_never_split(unit, seed, rate, max_predictions_per_seq):
    ids = batch(seed, rows=8, length=48)
    masked = masked_tokens(
        ids,
        apply(
            ids, unit=unit, rate=rate, max_predictions_per_seq=max_predictions_per_seq, seed=seed
        ),
    )
    words = words_of(ids)
    for row in range(len(ids)):
        ordinary = ~np.isin(ids[row], SPECIAL)
        _, sizes = np.unique(words[row][ordinary], return_counts=True)
        if sizes.min() <= min(max_predictions_per_seq, 48):  # else tokens do not seem to tell words
            for word in np.unique(words[row]):
                assert len(set(masked[row][words[row] == word])) == 1


@pytest.mark.parametrize("unit", ["word", "ngram", "span"])
def test_tokens_are_chosen_where_one_word_is_the_whole_text(unit):
    ids = np.array([[2, 5, *range(700, 736), 3], [2, 5, 6, *range(7, 42), 3]], np.int32)
    masked = masked_tokens(ids, apply(ids, unit=unit, rate=0.15))
    np.testing.assert_allclose(masked.sum(1) / 37, 0.15, atol=0.03)


def test_what_follows_a_special_token_is_a_word():
    """Where a text is cut inside a word, or the first word has no mark of a space."""
    ids = np.tile(np.array([[2, 700, 701, 5, 3, 702, 6, 3]], np.int32), (512, 1))
    masked = masked_tokens(ids, apply(ids, unit="word", rate=0.4))
    np.testing.assert_array_equal(masked[:, 1], masked[:, 2])
    assert (masked[:, 1] != masked[:, 5]).any()
    assert masked[:, [1, 3, 5, 6]].any(0).all()


def laws():
    """The shares of lengths, written out: a loop that draws as the papers say."""
    geometric = []
    for n in range(1, 11):
        geometric.append(0.2 * (1 - 0.2) ** (n - 1))
    harmonic = [1 / n for n in (1, 2, 3)]
    return {
        "word": np.array([1.0]),
        "ngram": np.array(harmonic) / sum(harmonic),
        "span": np.array(geometric) / sum(geometric),
    }


@pytest.mark.parametrize("unit", ["word", "ngram", "span"])
def test_lengths_follow_the_law(unit):
    """One span in a row, which is neither overlapped nor cut, as there is room for ten words."""
    rows, length, law = 40000, 40, laws()[unit]
    drawn = score_words(  # every word's own span, of the highest score
        MASKING_UNITS[unit],
        tf.constant(np.arange(length)[None] < np.full((rows, 1), 30)),
        tf.constant(np.random.default_rng(0).integers(0, 2**32, (rows, 1), dtype=np.uint32)),
    ).numpy()
    span, left = drawn // 16, drawn % 16
    best = span.max(1, keepdims=True)
    first = (span == best).argmax(1)
    size = (span == best).sum(1)
    # Words are counted down to the end of the span, and it is one run.
    assert (left[np.arange(rows), first] >= size).all()
    np.testing.assert_array_equal(span[np.arange(rows), first + size - 1], best[:, 0])
    inside = first <= 30 - len(law)  # those near the end are cut by it
    ratios = np.bincount(size[inside], minlength=len(law) + 1)[1:] / inside.sum()
    np.testing.assert_allclose(ratios, law, atol=0.01)
    assert (drawn[:, 30:] == 0).all()
    # Every word is as likely to begin one.
    np.testing.assert_allclose(np.bincount(first, minlength=30)[:30] / rows, 1 / 30, atol=0.005)


def test_mean_length_of_spans_is_that_of_the_paper():
    law = laws()["span"]
    assert law @ np.arange(1, 11) == pytest.approx(3.8, abs=0.01)


def reference(is_word, sizes, starts, lengths, priority, count):
    """A loop over spans in order: takes words until `count` tokens are reached."""
    taken, owner = set(), {}
    left = count
    plan = []
    for start in sorted(starts, key=lambda s: -priority[s]):
        for word in range(start, start + lengths[start]):
            if word >= len(is_word) or not is_word[word]:
                break
            if word not in owner:
                owner[word] = start
                plan.append(word)
    for _ in range(len(plan)):  # each word that fits, in order, as BERT's loop does
        for word in plan:
            if word not in taken and sizes[word] <= left:
                taken.add(word)
                left -= sizes[word]
    return taken, owner


@pytest.mark.parametrize("unit", ["word", "ngram", "span"])
def test_chosen_as_a_loop_over_spans_does(unit):
    """The same draws, gone through one by one. With words of two tokens at most, nothing else."""
    ids = batch(seed=5, rows=64, length=96)
    run = np.zeros(len(ids), int)
    for column in range(ids.shape[1]):  # no word of more than two tokens
        run = np.where(CONTINUES[ids[:, column]], run + 1, 0)
        ids[:, column] = np.where(run > 1, 9, ids[:, column])
        run = np.where(run > 1, 0, run)
    rows = random_bits(3, 2, tf.range(len(ids)))[:, None]
    masked = masked_tokens(ids, apply(ids, unit=unit, max_predictions_per_seq=15, seed=3, epoch=2))
    priority = (
        (random_bits(rows, 0, tf.range(96)) // tf.constant(64, tf.uint32)).numpy().astype(int)
    )
    law = np.cumsum(laws()[unit])
    lengths = 1 + np.searchsorted(law[:-1], uniform(rows, 4, tf.range(96)).numpy(), side="right")
    ordinary = ~np.isin(ids, SPECIAL)
    for row in range(len(ids)):
        words, begins = [], []
        for position, token in enumerate(ids[row]):
            after = position and ordinary[row, position - 1]
            if ordinary[row, position] and CONTINUES[token] and after:
                words[-1] += 1
            else:
                words.append(1)
                begins.append(position)
        is_word = [ordinary[row, begin] for begin in begins]
        starts = [n for n, real in enumerate(is_word) if real]
        count = int(masked[row].sum())
        taken, _ = reference(is_word, words, starts, lengths[row], priority[row], count)
        expected = np.zeros(96, bool)
        for word in taken:
            expected[begins[word] : begins[word] + words[word]] = True
        np.testing.assert_array_equal(masked[row], expected)


def test_the_tokens_of_a_span_share_their_fate():
    """Neighbours that belong to one span are both `[MASK]`, both replaced or both kept."""
    ids = np.full((20000, 66), 7, np.int32)
    ids[:, 0], ids[:, -1] = 2, 3
    same = {}
    for unit in ("word", "span"):
        result = apply(ids, unit=unit, rate=0.05, max_predictions_per_seq=4)
        masked = masked_tokens(ids, result)
        is_mask = result["token_ids"] == MASK
        both = masked[:, 1:] & masked[:, :-1]
        same[unit] = (is_mask[:, 1:] == is_mask[:, :-1])[both].mean()
    assert same["word"] == pytest.approx(0.8**2 + 0.2**2, abs=0.03)
    assert same["span"] > 0.97  # the rest are spans that meet


def test_words_of_many_tokens_leave_part_of_the_rate():
    """The rest of the budget that no word fits into stays unused, as the docstring says."""
    ids = np.full((4096, 128), 700, np.int32)
    ids[:, 0], ids[:, -1] = 2, 3
    ids[:, 1:-1:3] = 7  # 42 words of three tokens; 18.9 are to be chosen
    ratio = apply(ids, unit="word")["weights"].sum() / (4096 * 126)
    assert ratio == pytest.approx(18 / 126, abs=1e-6)


@pytest.mark.parametrize("unit", MASKING_UNITS)
def test_the_batch_makes_no_difference(unit):
    ids = batch(rows=60)
    whole = apply(ids, unit=unit)
    for part in (slice(0, 7), slice(7, 60)):
        other = apply(ids[part], examples=np.arange(60)[part], unit=unit)
        for name, value in whole.items():
            np.testing.assert_array_equal(value[part], other[name])


@pytest.mark.parametrize("unit", MASKING_UNITS)
def test_epoch_example_and_seed_make_a_difference(unit):
    ids = batch(rows=32)
    first = apply(ids, unit=unit)["positions"]
    changes = ({"epoch": 1}, {"seed": 1}, {"examples": np.arange(32) + 99})
    for other in (apply(ids, unit=unit, **change) for change in changes):
        assert (first != other["positions"]).any(axis=1).mean() > 0.9


@pytest.mark.parametrize("unit", MASKING_UNITS)
def test_nothing_to_mask(unit):
    result = apply(np.array([[2, 3, 0, 0]], np.int32), unit=unit)
    assert not result["weights"].any()
    np.testing.assert_array_equal(result["token_ids"], [[2, 3, 0, 0]])


def test_max_predictions():
    assert max_predictions(0.15, 128) == 20
    assert max_predictions(0.15, 512) == 77


@pytest.mark.parametrize(
    "options",
    [
        {"rate": 0.0},
        {"rate": 1.0},
        {"max_predictions_per_seq": 0},
        {"unit": "sentence"},
        {"replacement": (0.8, 0.3)},
        {"replacement": (1.1, -0.1)},
    ],
)
def test_bad_options(options):
    with pytest.raises(InputError):
        masking(**options)
