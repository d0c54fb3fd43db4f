import numpy as np
import pytest

from keras_bert.pretraining.data.input_pipeline import Examples, num_batches
from keras_bert.pretraining.data.masking import TokenMasking
from keras_bert.pretraining.objectives.registry import OBJECTIVES
from tests.marks import others_swept

LENGTH = 32


@pytest.fixture(scope="module")
def make_examples(make_corpus, vocabulary):
    def make(objective="mlm+nsp", packed=False, separator_at_end=True, **options):
        corpus = make_corpus()
        masking = TokenMasking(
            mask_id=vocabulary.mask_id,
            special_ids=vocabulary.special_ids,
            is_continuation=corpus.is_continuation,
            max_predictions_per_seq=5,
            **options,
        )
        return Examples(
            corpus=corpus,
            vocabulary=vocabulary,
            masking=masking,
            sequence_length=LENGTH,
            objective=OBJECTIVES[objective],
            packed=packed,
            separator_at_end=separator_at_end,
        )

    return make


def collect(dataset):
    """All batches, flattened to one dictionary of arrays."""
    rows = {}
    for x, y, w in dataset.as_numpy_iterator():
        parts = {**x, **{f"y/{k}": v for k, v in y.items()}, **{f"w/{k}": v for k, v in w.items()}}
        for name, value in parts.items():
            rows.setdefault(name, []).append(value)
    return {name: np.concatenate(values) for name, values in rows.items()}


@pytest.mark.parametrize("at_end", [True, False])
def test_examples_are_what_the_plan_says(at_end, make_examples, vocabulary):
    examples = make_examples(separator_at_end=at_end)
    index = examples.example_index(2)
    rows = collect(examples.dataset(16, epoch=2))
    tokens = examples.corpus.tokens
    cls, separator, pad = vocabulary.cls_id, vocabulary.separator_id, vocabulary.pad_id
    for n in range(len(index)):
        a = tokens[index.a_start[n] : index.a_start[n] + index.a_length[n]].tolist()
        b = tokens[index.b_start[n] : index.b_start[n] + index.b_length[n]].tolist()
        ids = [cls, *a, separator, *b, *[separator] * at_end]
        padding = [0] * (LENGTH - len(ids))
        restored = rows["token_ids"][n].copy()
        chosen = rows["w/mlm_logits"][n] > 0
        restored[rows["masked_positions"][n][chosen]] = rows["y/mlm_logits"][n][chosen]
        assert restored.tolist() == ids + [pad] * len(padding)
        assert (
            rows["segment_ids"][n].tolist()
            == [0] * (len(a) + 2) + [1] * (len(b) + at_end) + padding
        )
        assert rows["padding_mask"][n].tolist() == [1] * len(ids) + padding
        assert rows["y/nsp_logits"][n] == index.label[n]
    assert rows["w/nsp_logits"].sum() == len(index)
    assert not rows["w/mlm_logits"][len(index) :].any()


def test_shapes_and_types_are_static(make_examples):
    x, y, w = make_examples().dataset(16).element_spec
    shapes = {name: (tuple(s.shape), s.dtype.name) for name, s in x.items()}
    assert shapes == {
        "token_ids": ((16, LENGTH), "int32"),
        "segment_ids": ((16, LENGTH), "int32"),
        "padding_mask": ((16, LENGTH), "int32"),
        "masked_positions": ((16, 5), "int32"),
    }
    assert {k: (tuple(s.shape), s.dtype.name) for k, s in y.items()} == {
        "mlm_logits": ((16, 5), "int32"),
        "nsp_logits": ((16,), "int32"),
    }
    assert {k: (tuple(s.shape), s.dtype.name) for k, s in w.items()} == {
        "mlm_logits": ((16, 5), "float32"),
        "nsp_logits": ((16,), "float32"),
    }


@pytest.mark.parametrize(
    ("objective", "packed"),
    others_swept([("mlm+nsp", False), ("rtd", True), ("rtd", False)], quick=2),
)
def test_any_batch_size_start_and_number_of_parts_gives_the_same_examples(
    make_examples, objective, packed
):
    examples = make_examples(objective, packed, unit="word")
    size = len(examples.example_index(0))
    whole = collect(examples.dataset(16))
    other = collect(examples.dataset(10))
    later = collect(examples.dataset(10, start=48))
    parts = [
        collect(examples.dataset(16, parts=4, first_part=first, local_parts=2)) for first in (0, 2)
    ]
    for name, value in whole.items():
        np.testing.assert_array_equal(value[:size], other[name][:size])
        np.testing.assert_array_equal(value[48:size], later[name][: size - 48])
        halves = [part[name].reshape(-1, 8, *value.shape[1:]) for part in parts]
        together = np.concatenate(halves, axis=1).reshape(value.shape)
        np.testing.assert_array_equal(value, together)


@pytest.mark.parametrize(("batch_size", "parts"), [(16, 1), (4, 2)])
def test_no_more_than_are_wanted(make_examples, batch_size, parts):
    examples = make_examples()
    whole = collect(examples.dataset(16))
    rows = collect(examples.dataset(batch_size, limit=18, parts=parts))
    exists = rows["w/nsp_logits"] > 0
    for name, value in rows.items():
        np.testing.assert_array_equal(value[exists], whole[name][:18], err_msg=name)
    more = collect(examples.dataset(16, limit=10**6))
    assert len(more["w/nsp_logits"]) == len(whole["w/nsp_logits"])


def test_epochs_differ(make_examples):
    examples = make_examples()
    first, second = (collect(examples.dataset(16, epoch=epoch)) for epoch in (0, 1))
    assert (first["token_ids"][:16] != second["token_ids"][:16]).any(axis=1).all()


def test_single_segments(make_examples):
    examples = make_examples("mlm")
    x, y, w = next(iter(examples.dataset(16)))
    assert y.shape == w.shape == (16, 5)
    assert not x["segment_ids"].numpy().any()
    assert x["padding_mask"].numpy().sum(1).max() == LENGTH


def test_originals_and_noise_for_models_that_sample(make_examples):
    examples = make_examples("rtd", replacement=(0.85, 0.0))
    rows = collect(examples.dataset(16))
    chosen = rows["w/mlm_logits"] > 0
    row, slot = np.nonzero(chosen[: len(examples.example_index(0))])
    position = rows["masked_positions"][row, slot]
    assert (position > 0).all()
    assert (rows["original_ids"][row, position] == rows["y/mlm_logits"][row, slot]).all()
    changed = rows["token_ids"] != rows["original_ids"]
    assert set(rows["token_ids"][changed]) == {examples.vocabulary.mask_id}
    np.testing.assert_array_equal(
        rows["w/rtd_logits"][: len(examples.example_index(0))],
        rows["padding_mask"][: len(examples.example_index(0))],
    )
    noise = rows["noise"][chosen]
    assert noise.dtype == np.float32
    assert 0 <= noise.min() < 0.02 < 0.98 < noise.max() < 1
    assert abs(noise.mean() - 0.5) < 0.02
    assert len(np.unique(noise)) > len(noise) - 10
    later = collect(examples.dataset(16, epoch=1))
    assert len(set(later["noise"][later["w/mlm_logits"] > 0]) & set(noise)) < 10


def test_number_of_batches(make_examples):
    examples = make_examples()
    size = len(examples.example_index(0))
    assert num_batches(size, 7) == len(list(examples.dataset(7))) == -(-size // 7)
    assert len(list(examples.dataset(7, start=size - 8))) == 2
    assert len(list(examples.dataset(7, start=size - 7))) == 1


@pytest.mark.parametrize("at_end", [True, False])
def test_packed_rows_are_what_the_plan_says(at_end, make_examples, vocabulary):
    examples = make_examples("rtd", packed=True, separator_at_end=at_end)
    index = examples.example_index(1)
    rows = collect(examples.dataset(16, epoch=1))
    assert rows["document_ids"].dtype == np.int32
    tokens = examples.corpus.tokens
    for n in range(len(index)):
        ids, documents = [], []
        for number, m in enumerate(range(*index.row_splits[n : n + 2]), start=1):
            assert index.cell[m] == n * LENGTH + len(ids)
            text = tokens[index.start[m] : index.start[m] + index.length[m]].tolist()
            ids += [vocabulary.cls_id, *text]
            ids += [vocabulary.separator_id if at_end else vocabulary.pad_id]
            documents += [number] * (len(text) + 1) + [number * at_end]
        padding = [0] * (LENGTH - len(ids))
        assert rows["original_ids"][n].tolist() == ids + [vocabulary.pad_id] * len(padding)
        assert rows["document_ids"][n].tolist() == documents + padding
        assert rows["padding_mask"][n].tolist() == [int(d > 0) for d in documents] + padding
    assert not rows["segment_ids"].any()
    assert rows["document_ids"].max() > 2
