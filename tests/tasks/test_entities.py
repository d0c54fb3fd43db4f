"""Tag schemes against seqeval, and against each other."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2, IOBES, Entities

from keras_bert import InputError
from keras_bert.tasks.entities import (
    SCHEMES,
    allowed_transitions,
    detect_scheme,
    spans_of,
    to_scheme,
    write_spans,
)

LABELS = ("PER", "LOC", "B-cell", "E")
TAGS = ["O", *(f"{prefix}-{label}" for prefix in "BIES" for label in LABELS), "B", "I"]


def tag_lists(prefixes="BIES"):
    tags = [tag for tag in TAGS if tag == "O" or tag[0] in prefixes]
    return st.lists(st.sampled_from(tags), max_size=12)


@st.composite
def span_lists(draw):
    """Entities in order that do not overlap, and the number of words."""
    spans, word = [], 0
    for label in draw(st.lists(st.sampled_from(LABELS), max_size=5)):
        first = word + draw(st.integers(0, 2))
        word = first + draw(st.integers(1, 3))
        spans.append((label, first, word))
    return spans, word + draw(st.integers(0, 2))


@given(tag_lists())
def test_lenient_reading_is_that_of_seqeval(tags):
    assert spans_of(tags) == [(label, first, last + 1) for label, first, last in get_entities(tags)]


@pytest.mark.parametrize(("scheme", "seqeval_scheme"), [("iob2", IOB2), ("bioes", IOBES)])
def test_strict_reading_is_that_of_seqeval(scheme, seqeval_scheme):
    @given(tag_lists("BI" if scheme == "iob2" else "BIES"))
    def check(tags):
        entities = Entities([tags], seqeval_scheme).entities[0]
        assert spans_of(tags, scheme) == [(e.tag, e.start, e.end) for e in entities]

    check()


@given(span_lists(), st.sampled_from(SCHEMES))
def test_what_is_written_is_read(spans_and_length, scheme):
    spans, length = spans_and_length
    tags = write_spans(spans, length, scheme)
    assert len(tags) == length
    assert spans_of(tags) == spans_of(tags, scheme) == spans
    if scheme == "bioes" and spans:
        assert detect_scheme([tags]) in ("bioes", "iob2")  # entities of two words have an E
    if scheme == "iob2":
        assert detect_scheme([tags]) == "iob2"


@given(tag_lists(), st.sampled_from(SCHEMES), st.sampled_from(SCHEMES))
def test_conversion_keeps_the_entities(tags, first, second):
    converted = to_scheme(to_scheme(tags, first), second)
    assert converted == to_scheme(tags, second)
    assert spans_of(converted) == spans_of(tags)
    assert to_scheme(converted, second) == converted


@pytest.mark.parametrize(("scheme", "prefixes"), [("iob2", "BI"), ("bioes", "BIES")])
def test_allowed_is_exactly_what_is_written_as_the_scheme_demands(scheme, prefixes):
    allowed = allowed_transitions(TAGS, scheme)

    @given(tag_lists(prefixes))
    def check(tags):
        path = [len(TAGS), *map(TAGS.index, tags), len(TAGS)]
        possible = all(allowed[a, b] for a, b in itertools.pairwise(path))
        assert possible == (to_scheme(tags, scheme) == tags)

    check()


def test_the_schemes_by_hand():
    spans = [("PER", 0, 2), ("PER", 2, 3), ("LOC", 4, 5), ("PER", 5, 8)]
    written = {scheme: " ".join(write_spans(spans, 8, scheme)) for scheme in SCHEMES}
    assert written == {
        "iob1": "I-PER I-PER B-PER O I-LOC I-PER I-PER I-PER",
        "iob2": "B-PER I-PER B-PER O B-LOC B-PER I-PER I-PER",
        "bioes": "B-PER E-PER S-PER O S-LOC B-PER I-PER E-PER",
    }
    for scheme, tags in written.items():
        assert detect_scheme([tags.split(), ["O"]]) == scheme
    assert to_scheme(["PER", "PER", "O", "LOC"], "iob2") == ["B-PER", "I-PER", "O", "B-LOC"]
    assert to_scheme(["I-PER", "x"], None) == ["I-PER", "x"]


@pytest.mark.parametrize(
    ("sequences", "scheme"),
    [
        ([["I-PER", "I-PER", "O"]], "iob1"),
        ([["B-PER", "I-LOC"]], "iob1"),
        ([["O", "O"], []], "iob2"),
        ([["S-PER"], ["B-PER", "I-PER"]], "bioes"),
        ([["NOUN", "VERB", "X"]], None),
        ([["O", "PER"]], None),
        ([["INTJ", "SYM", "BIG"]], None),
    ],
)
def test_detection(sequences, scheme):
    assert detect_scheme(sequences) == scheme


def test_everything_may_follow_without_constraints():
    for scheme in (None, "iob1"):
        assert allowed_transitions(["O", "B-X", "I-X"], scheme).all()
    allowed = allowed_transitions(["O", "B-X", "I-X", "I-Y"], "iob2")
    expected = np.array(  # columns: O B-X I-X I-Y end
        [[1, 1, 0, 0, 1], [1, 1, 1, 0, 1], [1, 1, 1, 0, 1], [1, 1, 0, 1, 1], [1, 1, 0, 0, 1]]
    )
    np.testing.assert_array_equal(allowed, expected.astype(bool))


def test_an_unknown_scheme():
    for call in (
        lambda: to_scheme(["O"], "iob3"),
        lambda: spans_of(["O"], "iob3"),
        lambda: allowed_transitions(["O"], "iob3"),
    ):
        with pytest.raises(InputError, match="no scheme 'iob3'. Did you mean 'iob2'"):
            call()
