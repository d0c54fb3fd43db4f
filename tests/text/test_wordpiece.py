import json
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.errors import InputError
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece.tokenizer import WordPiece
from tests.marks import others_swept
from tests.text import reference, stress
from tests.text.code_points import assigned_characters

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz0123456789.,!?[]#'-中国é"]
WORDS = ["un", "##aff", "##able", "the", "cat", "##ing", "hello", "mask"]
VOCABULARY = Vocabulary([*SPECIAL, *LETTERS, *(f"##{c}" for c in LETTERS), *WORDS])
TOKENIZER = WordPiece(VOCABULARY)
IDS = {token: index for index, token in enumerate(VOCABULARY.tokens)}


def tokens_of(texts, tokenizer=TOKENIZER, **options):
    ids = tokenizer.tokenize(texts, **options).to_list()
    return [[tokenizer.vocabulary.tokens[i] for i in row] for row in ids]


# Texts of every kind: letters that the vocabulary has, and anything at all.
texts = st.lists(
    st.one_of(
        st.sampled_from(
            [*LETTERS, *WORDS, " ", "  ", "\t", "\n", "É", "e\u0301", "ß", "\0", "[MASK]"]
        ),
        st.characters(exclude_categories=["Cs", "Cn"]),
    ),
    max_size=30,
).map("".join)


# The algorithm


@pytest.mark.parametrize("uncased", [True, False])
def test_equals_plain_python_for_every_assigned_character_in_context(uncased):
    characters = assigned_characters()
    contexts = [f"a{c}b {c} x{c}" for c in characters]
    expected = [reference.words(text, uncased) for text in contexts]
    # A vocabulary with every character, so that nothing hides behind [UNK].
    alphabet = sorted({c for words in expected for word in words for c in word})
    vocabulary = Vocabulary([*SPECIAL, *alphabet, *(f"##{c}" for c in alphabet)])
    ids = {token: index for index, token in enumerate(vocabulary.tokens)}
    found = WordPiece(vocabulary, lowercase=uncased).tokenize(contexts).to_list()
    different = {
        character
        for character, words, row in zip(characters, expected, found, strict=True)
        if row != [ids[("##" if i else "") + c] for word in words for i, c in enumerate(word)]
    }
    # Python lowers a capital sigma by its place in the word, a table cannot; nor does Hugging Face.
    assert different == ({"Σ"} if uncased else set())


@pytest.mark.parametrize(
    "name",
    [
        "bert-base-uncased",
        "bert-base-cased",
        *(
            pytest.param(name, marks=[pytest.mark.private_data, pytest.mark.slow])
            for name in ("bert-base-multilingual-cased", "bert-base-chinese")
        ),
    ],
)
def test_equals_plain_python_on_hard_lines(shared_data, name):
    uncased = stress.UNCASED[name]
    vocabulary = Vocabulary.from_file(shared_data / f"vocabs/{name}/vocab.txt")
    ids = {token: index for index, token in enumerate(vocabulary.tokens)}
    lines = (shared_data / "text/tokenizer_stress.jsonl").read_text("utf-8").splitlines()
    hard = [json.loads(line)["text"] for line in lines]
    hard = [text for text in hard if not (uncased and "Σ" in text)]
    expected = [[ids[t] for t in reference.tokenize(x, ids, uncased=uncased)] for x in hard]
    found = WordPiece(vocabulary, lowercase=uncased).tokenize(hard).to_list()
    assert [x for x, a, b in zip(hard, found, expected, strict=True) if a != b] == []


@pytest.mark.private_data
@pytest.mark.parametrize("name", others_swept(stress.UNCASED, quick=2))
def test_differences_from_hugging_face_are_known(shared_data, name):
    of_ids, of_offsets = stress.differences(shared_data, name)
    uncased = {stress.NEW_MARK: 56} if stress.UNCASED[name] else {}
    assert of_ids == {stress.SPECIAL_TOKEN: 1, stress.PRIVATE_USE: 4, **uncased}
    assert of_offsets == ({stress.NEW_MARK: 2} if stress.UNCASED[name] else {})


@pytest.mark.private_data
@pytest.mark.parametrize("name", others_swept(stress.UNCASED, quick=2))
def test_special_tokens_in_text_equal_hugging_face(shared_data, name):
    of_ids, _ = stress.differences(shared_data, name, allow_special_tokens=True)
    uncased = {stress.NEW_MARK: 56} if stress.UNCASED[name] else {}
    assert of_ids == {stress.PRIVATE_USE: 4, **uncased}


@given(st.lists(texts, max_size=5), st.integers(1, 12), st.booleans())
@settings(max_examples=60, deadline=None)
def test_equals_plain_python_at_any_word_limit(batch, limit, uncased):
    batch = [text.replace("Σ", "") for text in batch]
    tokenizer = WordPiece(VOCABULARY, lowercase=uncased, max_characters_per_word=limit)
    expected = [reference.tokenize(x, IDS, uncased=uncased, limit=limit) for x in batch]
    assert tokens_of(batch, tokenizer) == expected


@pytest.mark.parametrize("character", ["a", "é", "中", "𝄞"])
def test_word_limit_counts_characters(character):
    vocabulary = Vocabulary([*SPECIAL, character, f"##{character}"])
    tokenizer = WordPiece(vocabulary, lowercase=False, split_cjk=False)
    ids, starts, ends = tokenizer.tokenize_with_offsets(
        [f"{character * 100} {character}", f"{character} {character * 101} {character * 500}"]
    )
    assert ids.to_list() == [[5, *[6] * 99, 5], [5, 1, 1]]
    assert starts.to_list()[1] == [0, 2, 104]
    assert ends.to_list()[1] == [1, 103, 604]


def test_tokens_that_only_too_long_words_could_have():
    """tf.text refuses tokens of more than 256 bytes."""
    long = ["a" * 257, "##" + "a" * 300, "é" * 101, "##" + "é" * 150]
    vocabulary = Vocabulary([*VOCABULARY.tokens, *long])
    ids = {token: index for index, token in enumerate(vocabulary.tokens)}
    batch = ["a" * 257, "un" + "a" * 300, "é" * 101, "unaffable é", "un" + "a" * 90]
    tokenizer = WordPiece(vocabulary, strip_accents=False)
    expected = [reference.tokenize(x, ids, uncased=True) for x in batch]
    expected[3] = ["un", "##aff", "##able", "é"]
    assert tokens_of(batch, tokenizer) == expected
    assert expected[0] == ["[UNK]"]
    with pytest.raises(InputError, match=r"token \d+ has 257 bytes, .*at most 256"):
        WordPiece(vocabulary, max_characters_per_word=300)


def test_cjk_is_split_unless_told_otherwise():
    text = ["un中able 国!", "中国, unaffable"]
    assert tokens_of(text)[0] == ["un", "中", "a", "##b", "##l", "##e", "国", "!"]
    whole = WordPiece(VOCABULARY, split_cjk=False)
    assert tokens_of(text, whole) == [
        ["un", "##中", "##able", "国", "!"],
        ["中", "##国", ",", "un", "##aff", "##able"],
    ]
    _, starts, ends = whole.tokenize_with_offsets(text)
    assert starts.to_list() == [[0, 2, 3, 8, 9], [0, 1, 2, 4, 6, 9]]
    assert ends.to_list() == [[2, 3, 7, 9, 10], [1, 2, 3, 6, 9, 13]]


@given(st.lists(texts.filter(lambda text: not any(map(reference.is_cjk, text))), max_size=4))
@settings(max_examples=40, deadline=None)
def test_both_ways_of_splitting_agree_without_cjk(batch):
    def newer(
        text,
    ):  # the regular expressions' tables of punctuation are older than the operation's
        return any(unicodedata.category(c)[0] in "PZ" and ord(c) > 0x3000 for c in text)

    batch = [text for text in batch if not newer(text)]
    assert tokens_of(batch, WordPiece(VOCABULARY, split_cjk=False)) == tokens_of(batch)


# Offsets


@given(st.lists(texts, min_size=1, max_size=4), st.booleans())
@settings(max_examples=60, deadline=None)
def test_offsets_slice_the_text(batch, allow_special_tokens):
    options = {"allow_special_tokens": allow_special_tokens}
    rows = TOKENIZER.tokenize_with_offsets(batch, **options)
    assert rows[0].to_list() == TOKENIZER.tokenize(batch, **options).to_list()
    for text, ids, starts, ends in zip(batch, *(x.to_list() for x in rows), strict=True):
        assert starts == sorted(starts)
        assert all(0 <= s < e <= len(text) for s, e in zip(starts, ends, strict=True))
        for index, start, end in zip(ids, starts, ends, strict=True):
            token = VOCABULARY.tokens[index]
            if token in SPECIAL:
                assert token == "[UNK]" or (text[start:end] == token and allow_special_tokens)
            else:
                slice_ = "".join(reference.words(text[start:end], True))
                assert slice_ in (token.removeprefix("##"), "σ")


def test_offsets_count_characters_of_the_original():
    text = "𝄞 É\u0301\u200bcat e\u0301 中\u3000가"
    ids, starts, ends = TOKENIZER.tokenize_with_offsets([text])
    assert [VOCABULARY.tokens[i] for i in ids.to_list()[0]] == [
        *("[UNK]", "e", "##c", "##a", "##t", "e", "中", "[UNK]")
    ]
    spans = list(zip(starts.to_list()[0], ends.to_list()[0], strict=True))
    assert [text[a:b] for a, b in spans] == ["𝄞", "É", "c", "a", "t", "e", "中", "가"]


# Special tokens


def test_special_tokens_in_text_are_plain_text():
    assert tokens_of(["a [MASK]b"]) == [["a", "[", "mask", "]", "b"]]


def test_special_tokens_when_asked_for():
    text = "É[MASK] b\0[SEP][MASK"
    ids, starts, ends = TOKENIZER.tokenize_with_offsets([text, ""], allow_special_tokens=True)
    tokens = [VOCABULARY.tokens[i] for i in ids.to_list()[0]]
    assert tokens == ["e", "[MASK]", "b", "[SEP]", "[", "mask"]
    assert starts.to_list() == [[0, 1, 8, 10, 15, 16], []]
    assert ends.to_list() == [[1, 7, 9, 15, 16, 20], []]


def test_text_never_becomes_a_special_token_without_punctuation():
    roles = {"pad": "pad", "unknown": "unk", "cls": "cls", "separator": "sep", "mask": "mask"}
    vocabulary = Vocabulary([*roles.values(), "a", "a b"], **roles)
    assert tokens_of(["pad mask unk a b"], WordPiece(vocabulary)) == [[*["unk"] * 3, "a", "unk"]]


# Hard input


@pytest.mark.parametrize("split_cjk", [True, False])
@pytest.mark.parametrize("token", ["\x11", "##\x11", "a\x11", "\x12"])
def test_tokens_of_control_characters_are_in_no_text(token, split_cjk):
    tokenizer = WordPiece(Vocabulary([*VOCABULARY.tokens, token]), split_cjk=split_cjk)
    batch = [token, "the\x11cat", "a \x11", "un\x12affable"]
    assert tokenizer.tokenize(batch).to_list() == TOKENIZER.tokenize(batch).to_list()


def test_hard_input():
    batch = ["", " \t\n", "\0", "x\0y", "a" * 100_000, "cat " * 10_000, "\U0001f600", "\ud800a"]
    found = tokens_of(batch)
    assert found[:4] == [[], [], [], ["x", "##y"]]
    assert found[4] == ["[UNK]"]
    assert found[5] == ["cat"] * 10_000
    assert found[6:] == [["[UNK]"], ["a"]]
    assert tokens_of([]) == []
    assert tokens_of("cat") == tokens_of(tf.constant("cat")) == tokens_of(b"cat") == [["cat"]]
    assert tokens_of(np.array(["cat", "s"])) == tokens_of(("cat", "s")) == [["cat"], ["s"]]
    starts, ends = TOKENIZER.tokenize_with_offsets(["\ud800a", "", "\udc00"])[1:]
    assert (starts.to_list(), ends.to_list()) == ([[1], [], []], [[2], [], []])


def test_bytes_that_are_not_utf8_do_not_crash():
    batch = tf.constant([b"a \xff b", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f"])
    for options in ({}, {"allow_special_tokens": True}):
        ids = TOKENIZER.tokenize_with_offsets(batch, **options)[0]
        assert ids.to_list()[0] == [IDS["a"], IDS["[UNK]"], IDS["b"]]


@pytest.mark.parametrize("wrong", [[1, 2], ["a", None], 3, ["a", ["b"]], [["a"], ["b"]]])
def test_what_is_not_a_batch_of_texts(wrong):
    with pytest.raises(InputError, match=r"Texts must|Text \d is .* must be a string"):
        TOKENIZER.tokenize(wrong)


def test_bad_limit():
    with pytest.raises(InputError, match="max_characters_per_word must be positive, not 0"):
        WordPiece(VOCABULARY, max_characters_per_word=0)


# Back to text


def test_detokenize():
    ids = [[IDS[t] for t in ("[CLS]", "un", "##aff", "##able", "!", "[MASK]", "[SEP]", "[PAD]")]]
    assert TOKENIZER.detokenize(tf.constant(ids)).numpy().tolist() == [b"unaffable ! [MASK]"]
    assert TOKENIZER.detokenize(tf.ragged.constant([[], [5]], tf.int32)).numpy().tolist() == [
        b"",
        b"a",
    ]


@given(st.lists(texts, max_size=4))
@settings(max_examples=40, deadline=None)
def test_tokens_of_the_detokenized_text_are_the_same(batch):
    batch = [text for text, row in zip(batch, tokens_of(batch), strict=True) if "[UNK]" not in row]
    ids = TOKENIZER.tokenize(batch)
    assert TOKENIZER.tokenize(TOKENIZER.detokenize(ids)).to_list() == ids.to_list()


# In graphs


@given(st.lists(texts, min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_a_text_alone_equals_the_text_in_a_batch(batch):
    together = TOKENIZER.tokenize(batch).to_list()
    assert together == [TOKENIZER.tokenize(text).to_list()[0] for text in batch]


def test_in_a_function_and_a_dataset():
    batch = ["the cats [MASK]", "", "a" * 101, "hello 中国"]
    expected = TOKENIZER.tokenize(batch).to_list()
    compiled = tf.function(TOKENIZER.tokenize, input_signature=[tf.TensorSpec([None], tf.string)])
    assert compiled(tf.constant(batch)).to_list() == expected
    dataset = tf.data.Dataset.from_tensor_slices(batch).batch(3).map(TOKENIZER.tokenize)
    assert [row for rows in dataset for row in rows.to_list()] == expected


def test_may_be_built_inside_a_function():
    built = []

    @tf.function
    def first():
        built.append(WordPiece(VOCABULARY))
        return built[0].tokenize(["cat"]).values

    assert first().numpy().tolist() == [IDS["cat"]]
    assert tokens_of(["cat"], built[0]) == [["cat"]]


def test_config_round_trip():
    tokenizer = WordPiece(
        VOCABULARY, lowercase=True, strip_accents=False, split_cjk=False, max_characters_per_word=9
    )
    config = json.loads(json.dumps(tokenizer.get_config()))
    again = WordPiece.from_config(config)
    assert again.get_config() == tokenizer.get_config()
    assert tokens_of(["É " + "a" * 10], again) == [["é", "[UNK]"]]


def test_is_continuation():
    assert TOKENIZER.is_continuation.dtype == bool
    assert TOKENIZER.is_continuation[IDS["##s"]]
    assert not TOKENIZER.is_continuation[IDS["#"]]
