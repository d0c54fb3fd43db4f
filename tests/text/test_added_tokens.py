"""Added tokens by themselves; against transformers they are in tests/checkpoints."""

import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert.text.words import first_tokens, split_words

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##b", "foo", "ab"]
ADDED = ["<e1>", "<e1>x", "foo bar", "@user"]


def word_piece(*tokens, lowercase=True):
    vocabulary = kb.Vocabulary([*TOKENS, *(token.content for token in tokens)])
    return kb.WordPiece(vocabulary, added_tokens=tokens, lowercase=lowercase)


def read(tokenizer, text, **options):
    names = tokenizer.vocabulary.tokens
    ids, starts, ends = (x.to_list()[0] for x in tokenizer.tokenize_with_offsets([text], **options))
    assert tokenizer.tokenize([text], **options).to_list()[0] == ids
    places = zip(ids, starts, ends, strict=True)
    return [(names[token], text[start:end]) for token, start, end in places]


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ({}, "a<x>b", [("a", "a"), ("<x>", "<x>"), ("b", "b")]),
        ({}, "a<X>b", [("a", "a"), *[("[UNK]", c) for c in "<x>".upper()], ("b", "b")]),
        ({"normalized": True}, "a<X>b", [("a", "a"), ("<x>", "<X>"), ("b", "b")]),
        ({"lstrip": True}, "a  <x> b", [("a", "a"), ("<x>", "  <x>"), ("b", "b")]),
        ({"rstrip": True}, "a <x>\u3000b", [("a", "a"), ("<x>", "<x>\u3000"), ("b", "b")]),
        ({"lstrip": True, "rstrip": True}, "<x> <x>", [("<x>", "<x> "), ("<x>", "<x>")]),
        ({"single_word": True}, "a<x> <x>", [("a", "a"), *[("[UNK]", c) for c in "<x>"]]),
        ({"special": True}, "<x><x>", [("<x>", "<x>"), ("<x>", "<x>")]),
    ],
)
def test_options(options, text, expected):
    found = read(word_piece(kb.AddedToken("<x>", **options)), text)
    assert found[: len(expected)] == expected
    if options.get("single_word"):
        assert found[len(expected) :] == [("<x>", "<x>")]


def test_the_longest_token_at_the_first_place():
    tokenizer = word_piece(*map(kb.AddedToken, ADDED))
    found = read(tokenizer, "<e1>xa foo bar@user")
    assert [token for token, _ in found] == ["<e1>x", "a", "foo bar", "@user"]


def test_text_without_the_cut_does_not_become_an_added_token():
    """As in `tokenizers`, where the model's vocabulary lacks them."""
    token = kb.AddedToken("abc", single_word=True)
    assert [t for t, _ in read(word_piece(token), "abcb abc")] == ["[UNK]", "abc"]
    assert [t for t, _ in read(word_piece(kb.AddedToken("abc")), "ABC")] == ["[UNK]"]


def test_white_space_between_two_that_take_it_belongs_to_the_first():
    left, right = kb.AddedToken("<l>", rstrip=True), kb.AddedToken("<r>", lstrip=True)
    assert read(word_piece(left, right), "<l>  <r>") == [("<l>", "<l>  "), ("<r>", "<r>")]


def test_many_tokens_nul_and_bytes_that_are_no_text():
    tokenizer = word_piece(*(kb.AddedToken(f"<{n}>", normalized=n % 2 == 0) for n in range(2000)))
    assert [t for t, _ in read(tokenizer, "a\0<1999>\0<1998>")] == ["a", "<1999>", "<1998>"]
    ids = tokenizer.tokenize([b"\xff<7>\xfe\x80a", b"", b"\xff"]).to_list()
    assert tokenizer.vocabulary.id_of("<7>") in ids[0]
    assert tokenizer.tokenize([]).to_list() == []


def test_in_a_graph_and_in_batches():
    options = {"single_word": True, "lstrip": True, "rstrip": True}
    tokens = (kb.AddedToken(t, normalized=t < "A", **options) for t in ADDED)
    tokenizer = word_piece(*tokens)
    texts = ["a <E1> b", "", "foo bar", "ab"] * 3
    preprocessor = kb.Preprocessor(tokenizer, 8)
    expected = preprocessor(texts)["token_ids"].numpy()
    batches = tf.data.Dataset.from_tensor_slices(texts).batch(5).map(preprocessor)
    found = np.concatenate([batch["token_ids"].numpy() for batch in batches])
    np.testing.assert_array_equal(found, expected)


def test_no_added_tokens_no_work():
    def operations(tokenizer):
        graph = tf.function(tokenizer.tokenize_with_offsets).get_concrete_function(
            tf.TensorSpec([None], tf.string)
        )
        return [operation.type for operation in graph.graph.get_operations()]

    assert not any("Regex" in kind for kind in operations(word_piece()))
    assert any("Regex" in kind for kind in operations(word_piece(kb.AddedToken("<x>"))))


def test_words_and_windows_of_texts_with_added_tokens():
    preprocessor = kb.Preprocessor(word_piece(kb.AddedToken("@user", lstrip=True)), 8)
    text = "a b  @user ab c " * 4
    rows = preprocessor.rows([text], overlap="auto", offsets=True)
    assert len(rows.lengths) > 1
    words = split_words(text)
    first = first_tokens(rows, [words])
    names = [preprocessor.vocabulary.tokens[i] for i in rows.flat["token_ids"][first[first >= 0]]]
    # The words are a, b, @, user, ab and c; the token that took the space stands for "@".
    assert names == ["a", "b", "@user", "ab", "c"] * 4


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ({"content": ""}, "The added token is '', but must be text"),
        ({"content": "c", "lstrip": "yes"}, "lstrip of the added token 'c' is 'yes', but must be"),
        ({"content": "<z>"}, "'<z>' is not one of the vocabulary's 11 tokens"),
    ],
)
def test_wrong_tokens(token, message):
    with pytest.raises(kb.InputError, match=message):
        kb.WordPiece(kb.Vocabulary(TOKENS), added_tokens=[token])
