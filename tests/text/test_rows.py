import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import keras_bert as kb
from keras_bert.text.rows import Rows
from tests.text.test_loading import KINDS

TOKENIZERS = {kind: make() for kind, make in KINDS.items()}
WORDS = ("the", "cat", "a", "x", "xx", "the\ncat", "é", "🙂", "")

texts = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)
pairs = st.integers(0, 4).flatmap(
    lambda n: st.tuples(*[st.lists(texts, min_size=n, max_size=n)] * 2)
)
kinds = st.sampled_from(sorted(KINDS))


def preprocessor(kind="wordpiece", length=12, **options):
    return kb.Preprocessor(TOKENIZERS[kind], length, **options)


def windows(count, room, overlap):
    """Begin and size of each window, as the loop over `doc_spans` in BERT's `run_squad.py`."""
    spans, begin = [], 0
    while True:
        size = min(count - begin, room)
        spans.append((begin, size))
        if begin + size == count:
            return spans
        begin += room - overlap


def has_most_context(spans, index, position):
    """`_check_is_max_context` of `run_squad.py`."""
    best, best_index = None, None
    for number, (begin, size) in enumerate(spans):
        if begin <= position < begin + size:
            score = min(position - begin, begin + size - 1 - position) + 0.01 * size
            if best is None or score > best:
                best, best_index = score, number
    return index == best_index


def expected_rows(tokenizer, batches, length, separators_in_pair, num_segments, overlap):
    vocabulary = tokenizer.vocabulary
    cls, separator = vocabulary.cls_id, vocabulary.separator_id
    ids = [tokenizer.tokenize(batch).to_list() for batch in batches]
    _, starts, ends = (x.to_list() for x in tokenizer.tokenize_with_offsets(batches[-1]))
    for sample, (*first, last) in enumerate(zip(*ids, strict=True)):
        before = [cls]
        room = length - 2
        number_of_last = 0
        if first:
            room = length - 2 - separators_in_pair
            first = first[0][: min(64, room // 2)]
            room -= len(first)
            before = [cls, *first, *[separator] * separators_in_pair]
            number_of_last = 1 if num_segments > 1 else 0
        share = room // 3 if overlap == "auto" else overlap
        spans = windows(len(last), room, share)
        for number, (begin, size) in enumerate(spans):
            shown = range(begin, begin + size)
            yield {
                "sample": sample,
                "token_ids": [*before, *last[begin : begin + size], separator],
                "segment_ids": [0] * len(before) + [number_of_last] * (size + 1),
                "starts": [*[-1] * len(before), *(starts[sample][i] for i in shown), -1],
                "ends": [*[-1] * len(before), *(ends[sample][i] for i in shown), -1],
                "is_max_context": [
                    *[False] * len(before),
                    *(has_most_context(spans, number, i) for i in shown),
                    False,
                ],
            }


FORMS = [{}, {"separators_in_pair": 2, "num_segments": 1}, {"separator_at_end": False}]


@given(
    kinds,
    st.one_of(st.lists(texts, max_size=4), pairs),
    st.integers(6, 40),
    st.sampled_from(FORMS),
)
@settings(max_examples=80, deadline=None)
def test_without_overlap_rows_are_those_of_a_call(kind, batch, length, options):
    maker = preprocessor(kind, length, **options)
    rows, expected = maker.rows(batch), maker(batch)
    assert rows.sample_ids.tolist() == list(range(len(expected["token_ids"])))
    for index, mask in enumerate(expected["padding_mask"].numpy().astype(bool)):
        for name, values in rows.row(index).items():
            assert values.dtype == np.int32
            assert values.tolist() == expected[name][index].numpy()[mask].tolist(), name


@given(
    kinds,
    st.one_of(st.lists(texts, max_size=4), pairs),
    st.integers(8, 40),
    st.sampled_from([0, 1, "auto"]),
    st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_windows_are_those_of_run_squad(kind, batch, length, overlap, is_roberta):
    options = {"separators_in_pair": 2, "num_segments": 1} if is_roberta else {}
    rows = preprocessor(kind, length, **options).rows(batch, overlap=overlap, offsets=True)
    batches = batch if isinstance(batch, tuple) else (batch,)
    facts = (length, 2, 1) if is_roberta else (length, 1, 2)
    expected = list(expected_rows(TOKENIZERS[kind], batches, *facts, overlap))
    found = [
        {"sample": sample, **{name: x.tolist() for name, x in rows.row(index).items()}}
        for index, sample in enumerate(rows.sample_ids.tolist())
    ]
    assert found == expected
    assert rows.lengths.max(initial=0) <= length
    # Each token of each text has most context in one row.
    most = rows.flat["is_max_context"]
    tokens = [len(row) for row in TOKENIZERS[kind].tokenize(batches[-1]).to_list()]
    row_of_token = np.repeat(rows.sample_ids, rows.lengths)[most]
    assert np.bincount(row_of_token, minlength=len(tokens)).tolist() == tokens


def test_more_texts_than_are_tokenized_at_once():
    many = [" ".join(["cat"] * (i % 13)) for i in range(2100)]
    rows = preprocessor().rows(many, overlap=2, offsets=True)
    alone = [preprocessor().rows([text], overlap=2, offsets=True) for text in many[:13]]
    for index in (0, 5, 1030, 2047, 2048, 2099):
        own = np.flatnonzero(rows.sample_ids == index)
        assert len(own) == len(alone[index % 13])
        for row, other in zip(own, range(len(own)), strict=True):
            for name, values in alone[index % 13].row(other).items():
                assert rows.row(row)[name].tolist() == values.tolist()


def test_padded():
    rows = preprocessor(length=40).rows(["cat", "a cat", "the cat the cat", "", "x " * 60])
    assert rows.lengths.tolist() == [3, 4, 6, 2, 40]
    assert rows.order_by_length().tolist() == [4, 2, 1, 0, 3]
    batch = rows.padded([2, 0])
    assert {(x.shape, x.dtype.name) for x in batch.values()} == {((2, 16), "int32")}
    vocabulary = TOKENIZERS["wordpiece"].vocabulary
    cls, separator, cat = vocabulary.cls_id, vocabulary.separator_id, vocabulary.id_of("cat")
    assert batch["token_ids"][1].tolist() == [cls, cat, separator, *[vocabulary.pad_id] * 13]
    assert batch["padding_mask"].sum(1).tolist() == [6, 3]
    assert rows.padded([4, 0])["token_ids"].shape == (2, 40)  # not 48
    assert rows.padded([3], multiple=1)["token_ids"].shape == (1, 2)
    assert rows.padded([])["token_ids"].shape[0] == 0


@pytest.mark.parametrize("batch", [[], ([], [])])
def test_no_texts(batch):
    rows = preprocessor().rows(batch, overlap="auto", offsets=True)
    assert len(rows) == 0
    assert rows.splits.tolist() == [0]
    assert {values.shape for values in rows.flat.values()} == {(0,)}
    assert rows.padded([])["token_ids"].shape[0] == 0


def test_a_long_first_text_leaves_room_for_the_second():
    rows = preprocessor(length=200).rows((["cat " * 500], ["x " * 300]), overlap=0)
    cat = TOKENIZERS["wordpiece"].vocabulary.id_of("cat")
    assert [(rows.row(i)["token_ids"] == cat).sum() for i in range(len(rows))] == [64, 64, 64]
    rows = preprocessor(length=13).rows((["cat " * 500], ["x " * 10]), overlap=0)
    assert [(rows.row(i)["token_ids"] == cat).sum() for i in range(len(rows))] == [5, 5]


@pytest.mark.parametrize(
    ("batch", "overlap", "message"),
    [
        (["cat"], -1, "overlap is -1, but must be 0 or more"),
        (["cat"], 10, "An overlap of 10 tokens is too much: windows on text 0 have room for 10"),
        ((["", "a a"], ["x", "x"]), 8, "text 1 have room for 7; choose a smaller overlap"),
        ((["a"], ["b"], ["c"]), None, "one text or a pair of texts, got 3"),
        ((["a"], ["b", "c"]), None, "same number of texts"),
    ],
)
def test_bad_arguments(batch, overlap, message):
    with pytest.raises(kb.InputError, match=message):
        preprocessor().rows(batch, overlap=overlap)


def test_no_room():
    with pytest.raises(kb.InputError, match="length of 4 leaves no room for text: .* at least 5"):
        preprocessor(length=4).rows((["a"], ["b"]))


def test_many_and_long_texts_are_fast():
    began = time.perf_counter()
    rows = preprocessor(length=128).rows(["the cat is a cat"] * 67_000, offsets=True)
    assert len(rows) == 67_000
    long = preprocessor(length=128).rows((["a cat"], ["the cat " * 50_000]), overlap=64)
    assert isinstance(long, Rows)
    assert len(long) > 1000
    assert time.perf_counter() - began < 30  # about 2 seconds alone on a machine
