import functools
import itertools
import re
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.errors import InputError
from keras_bert.text.sentencepiece.model import SPACE, SentencePieceModel
from keras_bert.text.sentencepiece.tokenizer import SentencePiece
from keras_bert.text.sentencepiece.training import SPECIAL_TOKENS
from tests.text import stress
from tests.text.sentencepiece_reference import (
    LETTERS,
    LICENSE,
    MINIMAL,
    MODEL,
    TOKENIZER,
    hugging_face,
    reference,
    reference_ids,
    tied,
    train,
)


def spans(tokenizer, text, **options):
    ids, starts, ends = (x.to_list()[0] for x in tokenizer.tokenize_with_offsets([text], **options))
    return ids, list(zip(starts, ends, strict=True))


# Texts of every kind: what the model knows, what its map normalises, and anything at all. A part of
# these is written as tokenizers' reference can follow (see `stress.py` for what it cannot).
ODD = ["ﬁ", "½", "…", "㌀", "A", "\u3000", "\t", "\n", "\u00a0", "e\u0301", "\0", "\u200b", SPACE]
plain_texts = st.lists(
    st.one_of(st.sampled_from([*LETTERS, " ", " ", "  ", "the ", "token"])), max_size=40
).map("".join)
texts = st.lists(
    st.one_of(
        st.sampled_from([*LETTERS, *ODD, " ", "  ", "the ", "token"]),
        st.characters(exclude_categories=["Cs", "Cn"]),
    ),
    max_size=30,
).map("".join)


# The algorithm


@settings(max_examples=150, deadline=None)
@given(texts)
def test_ids_are_those_of_the_reference(text):
    ids = TOKENIZER.tokenize([text]).to_list()[0]
    expected = []
    for word in text.split(" "):
        expected += reference_ids(word)
    assert ids == expected


@settings(max_examples=100, deadline=None)
@given(plain_texts)
def test_words_apart_are_the_whole_text(text):
    ids = TOKENIZER.tokenize([text]).to_list()[0]
    assert ids == reference_ids(text) or tied(ids, reference_ids(text))


@settings(max_examples=100, deadline=None)
@given(plain_texts)
def test_ids_and_offsets_are_those_of_hugging_face(text):
    encoding = HUGGING_FACE.encode(text)
    ids, offsets = spans(TOKENIZER, text)
    assert (ids, offsets) == (encoding.ids, encoding.offsets) or (
        ids != encoding.ids and tied(ids, encoding.ids)
    )


HUGGING_FACE = hugging_face(MODEL)


@settings(max_examples=150, deadline=None)
@given(st.lists(texts, max_size=4))
def test_offsets_are_in_the_text_and_ids_do_not_depend_on_them(batch):
    ids, starts, ends = TOKENIZER.tokenize_with_offsets(batch)
    for ours, alone in zip(ids.to_list(), TOKENIZER.tokenize(batch).to_list(), strict=True):
        assert ours == alone or tied(ours, alone)
    assert ids.dtype == starts.dtype == ends.dtype == tf.int32
    for text, first, last in zip(batch, starts.to_list(), ends.to_list(), strict=True):
        assert first == sorted(first)
        assert all(0 <= a < b <= len(text) for a, b in zip(first, last, strict=True))
        covered = {c for a, b in zip(first, last, strict=True) for c in text[a:b]}
        assert {c for c in text if c.isascii() and c.isalnum()} <= covered


@settings(max_examples=100, deadline=None)
@given(st.text(sorted({c for piece in TOKENIZER.vocabulary.tokens[1:] for c in piece} - {SPACE})))
def test_detokenize_gives_the_normalised_text(text):
    assert TOKENIZER.detokenize(TOKENIZER.tokenize([text]))[0].numpy().decode() == " ".join(
        unicodedata.normalize("NFKC", text).split()
    )


@pytest.mark.private_data
def test_real_model_on_hard_lines(shared_data):
    of_ids, of_offsets = stress.differences(shared_data, "deberta-v3", allow_special_tokens=True)
    assert of_ids == {stress.EDGE: 11, stress.APART: 8, stress.TIE: 1}
    assert of_offsets == {stress.EDGE: 47, stress.APART: 45, stress.CHANGED: 11}


def test_long_texts_are_the_words_they_are_made_of():
    words = (LICENSE.read_text("utf-8").split() * 40)[:100_000]
    text = " ".join(words)
    expected = [i for word in words for i in reference_ids(word)]
    assert TOKENIZER.tokenize([text]).to_list()[0] == expected


def test_long_words():
    text = "ab" * 50_000
    ids, found = spans(TOKENIZER, text)
    assert len(ids) > 10_000
    assert (found[0][0], found[-1][1]) == (0, len(text))
    assert all(a[1] == b[0] for a, b in itertools.pairwise(found))


def test_a_long_word_among_many():
    words = [f"token{number}" for number in range(30_000)]
    _, starts, ends = TOKENIZER.tokenize_with_offsets([" ".join(words), "x" * 100_000])
    last = [row[-1] for row in ends.to_list()]
    assert last == [len(" ".join(words)), 100_000]
    assert starts.to_list()[1][:2] == [0, 0]  # the space before the word, and its first letter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("   ", []),
        ("\u200b", []),
        (" a  b ", [(1, 2), (3, 5)]),
        ("a\u3000b", [(0, 1), (1, 3)]),
        ("龘", [(0, 1), (0, 1)]),
        ("a 龘龘", [(0, 1), (1, 2), (2, 4)]),
    ],
)
def test_spans(text, expected):
    assert spans(TOKENIZER, text)[1] == expected


# What the model says


@functools.cache
def tokenizer_and_reference(*options):
    model = train(**dict(options))
    tokenizer = SentencePiece(model, special_tokens=MINIMAL, byte_fallback=True)
    return tokenizer, reference(model)


@pytest.mark.parametrize(
    "options",
    [
        {"model_type": "bpe"},
        {"byte_fallback": True, "vocab_size": 800},
        {"add_dummy_prefix": False},
        {"remove_extra_whitespaces": False},
        {"treat_whitespace_as_suffix": True},
        {"normalization_rule_name": "identity"},
        {"normalization_rule_name": "nfkc_cf"},
        {"user_defined_symbols": ("<x>", "(", "…")},
        {"user_defined_symbols": (" the ",)},
        {"split_by_whitespace": False},
    ],
    ids=lambda options: "-".join(options),
)
@settings(max_examples=25, deadline=None)
@given(batch=st.lists(st.one_of(plain_texts, texts), min_size=5, max_size=9))
def test_every_kind_of_model(options, batch):
    tokenizer, processor = tokenizer_and_reference(*options.items())
    if options == {"normalization_rule_name": "identity"}:  # see docs/limits.md
        batch = [re.sub(f"{SPACE}+ ", " ", text) for text in batch]
    found, expected = tokenizer.tokenize(batch).to_list(), processor.encode(batch)
    for ours, theirs in zip(found, expected, strict=True):
        model = processor.serialized_model_proto()
        assert ours == theirs or tied(ours, theirs, model=model)


def test_byte_fallback_is_an_option():
    model = train(byte_fallback=True, vocab_size=800)
    as_bytes = SentencePiece(model, special_tokens=MINIMAL, byte_fallback=True)
    tokens = [as_bytes.vocabulary.tokens[i] for i in as_bytes.tokenize(["龘"]).to_list()[0]]
    assert tokens == [SPACE, *(f"<0x{byte:02X}>" for byte in "龘".encode())]
    assert as_bytes.detokenize(as_bytes.tokenize(["a 龘 b"]))[0].numpy().decode() == "a 龘 b"
    by_default = SentencePiece(model, special_tokens=MINIMAL)
    assert by_default.tokenize(["龘"]).to_list()[0][1:] == [by_default.vocabulary.unknown_id]


def test_a_comma_after_a_digit_stays_apart():
    model = SentencePieceModel.from_pieces(
        ["<unk>", SPACE, f"{SPACE}9", f"{SPACE}9,", ","], [0, -3, -2, -1, -2], unknown_id=0
    ).to_bytes()
    pieces = SentencePiece(model, special_tokens=MINIMAL)
    assert pieces.tokenize(["9,"]).to_list() == [[3]]
    apart = SentencePiece(model, special_tokens=MINIMAL, split_digit_commas=True)
    assert apart.tokenize(["9,"]).to_list() == [[2, 4]]


# Vocabularies


FAIRSEQ = {
    "special_tokens": {
        "pad": "<pad>",
        "unknown": "<unk>",
        "cls": "<s>",
        "separator": "</s>",
        "mask": "<mask>",
    },
    "last_tokens": ["<mask>"],
}


def test_vocabulary_of_xlm_roberta():
    model = train(bos_id=1, eos_id=2)  # <unk> <s> </s>
    tokenizer = SentencePiece(
        model, first_tokens=["<s>", "<pad>", "</s>", "<unk>"], skipped_pieces=3, **FAIRSEQ
    )
    expected = [i + 1 if i else 3 for i in reference(model).encode("The tokens 龘")]
    assert tokenizer.tokenize(["The tokens 龘"]).to_list()[0] == expected
    assert tokenizer.vocabulary.special_ids == (1, 3, 0, 2, len(tokenizer.vocabulary) - 1)
    assert len(tokenizer.vocabulary) == reference(model).get_piece_size() + 2


def test_vocabulary_of_camembert():
    model = train(bos_id=1, eos_id=2)
    first = ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"]
    tokenizer = SentencePiece(model, first_tokens=first, skipped_pieces=1, **FAIRSEQ)
    expected = [i + 4 if i else 3 for i in reference(model).encode("The tokens 龘")]
    assert tokenizer.tokenize(["The tokens 龘"]).to_list()[0] == expected
    assert tokenizer.vocabulary.special_ids == (1, 3, 5, 6, len(tokenizer.vocabulary) - 1)


def albert():
    symbols = ["[CLS]", "[SEP]", "[MASK]"]
    model = train(pad_id=0, unk_id=1, control_symbols=symbols[:2], user_defined_symbols=symbols[2:])
    return SentencePiece(model, special_tokens=SPECIAL_TOKENS)


def test_special_tokens_are_plain_text_unless_asked_for():
    tokenizer = albert()
    mask = tokenizer.vocabulary.mask_id
    text = "the [MASK] token"
    assert mask not in tokenizer.tokenize([text]).to_list()[0]
    ids, found = spans(tokenizer, text, allow_special_tokens=True)
    assert text[slice(*found[ids.index(mask)])] == "[MASK]"
    assert tokenizer.tokenize([text], allow_special_tokens=True).to_list()[0] == ids
    cls, separator = tokenizer.vocabulary.cls_id, tokenizer.vocabulary.separator_id
    assert tokenizer.detokenize([[cls, *ids, separator, 0, 0]])[0] == text.encode()


def test_continuations_do_not_begin_words():
    continues = dict(zip(TOKENIZER.vocabulary.tokens, TOKENIZER.is_continuation, strict=True))
    assert [continues[t] for t in ("<unk>", f"{SPACE}the", "s")] == [False, False, True]


def test_missing_special_token_is_refused():
    with pytest.raises(InputError, match=re.escape("[CLS]")):
        SentencePiece(MODEL)


# Graphs


ODD_BYTES = [
    b"\xff\xfe the",
    "the \ud800 token".encode("utf-8", "surrogatepass"),
    b"\xe4\xb8",
    b"\0",
]


def test_bytes_that_are_no_text_do_no_harm():
    ids, *_ = TOKENIZER.tokenize_with_offsets(ODD_BYTES)
    assert ids.to_list() == TOKENIZER.tokenize(ODD_BYTES).to_list()
    assert ids.row_lengths()[0] > 0


def test_python_strings_with_lone_surrogates():
    assert (
        TOKENIZER.tokenize(["the \ud800"]).to_list() == TOKENIZER.tokenize(["the \ufffd"]).to_list()
    )
    assert TOKENIZER.tokenize("a \ud800").to_list() == TOKENIZER.tokenize(["a \ufffd"]).to_list()


def test_empty_batch():
    for result in [TOKENIZER.tokenize([]), *TOKENIZER.tokenize_with_offsets([])]:
        assert (result.shape[0], result.dtype) == (0, tf.int32)
    assert TOKENIZER.detokenize(TOKENIZER.tokenize([])).shape == [0]


@pytest.mark.parametrize("model_type", ["unigram", "bpe"])
def test_in_a_dataset_and_a_saved_model(tmp_path, model_type):
    model = train(model_type=model_type)
    tokenizer = SentencePiece(model, special_tokens=MINIMAL)
    lines = ["The tokens of a text.", "", "Another  text, 龘"]
    expected = tokenizer.tokenize(lines).to_list()
    dataset = tf.data.Dataset.from_tensor_slices(lines).batch(2).map(tokenizer.tokenize)
    assert [row for batch in dataset for row in batch.to_list()] == expected

    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def ids(self, texts):
            return tokenizer.tokenize(texts)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def offsets(self, texts):
            return tokenizer.tokenize_with_offsets(texts)

    tf.saved_model.save(Module(), str(tmp_path / "model"))
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    assert loaded.ids(tf.constant(lines)).to_list() == expected
    assert loaded.ids(tf.constant([], tf.string)).to_list() == []
    assert [x.to_list() for x in loaded.offsets(tf.constant(lines))] == [
        x.to_list() for x in tokenizer.tokenize_with_offsets(lines)
    ]


def test_saved_model_holds_the_model_once(tmp_path):
    sizes = []
    for functions in (1, 3):
        module = tf.Module()
        signature = [tf.TensorSpec([None], tf.string)]
        module.functions = [
            tf.function(lambda texts: TOKENIZER.tokenize(texts), input_signature=signature)
            for _ in range(functions)
        ]
        tf.saved_model.save(module, str(tmp_path / str(functions)))
        sizes.append((tmp_path / str(functions) / "saved_model.pb").stat().st_size)
    assert sizes[1] - sizes[0] < len(MODEL) / 2  # two more copies of the graph alone


def test_configuration_gives_the_tokenizer_back():
    tokenizer = SentencePiece(
        train(bos_id=1, eos_id=2),
        first_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        skipped_pieces=3,
        normalization=["lowercase"],
        **FAIRSEQ,
    )
    again = SentencePiece.from_config(tokenizer.get_config())
    assert again.get_config() == tokenizer.get_config()
    assert again.tokenize(["The TEXT"]).to_list() == tokenizer.tokenize(["The TEXT"]).to_list()


def test_files_give_the_tokenizer_back(tmp_path):
    TOKENIZER.save(tmp_path)
    again = SentencePiece.load(tmp_path, special_tokens=MINIMAL)
    assert again.get_config() == TOKENIZER.get_config()
    with pytest.raises(InputError, match="spiece.model cannot be read"):
        SentencePiece.load(tmp_path / "none")


def test_arrays():
    assert isinstance(TOKENIZER.is_continuation, np.ndarray)
    assert TOKENIZER.is_continuation.shape == (len(TOKENIZER.vocabulary),)
