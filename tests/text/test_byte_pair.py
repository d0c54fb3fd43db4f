import itertools
import json
import random

import numpy as np
import pytest
import tensorflow as tf
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.errors import InputError
from keras_bert.text.byte_pair.splitting import PATTERNS, Kind, kinds_of, split_words
from keras_bert.text.byte_pair.tokenizer import BYTE_CHARACTERS, BytePair, token_bytes
from keras_bert.text.byte_pair.training import SPECIAL_TOKENS, learn_byte_pair
from keras_bert.text.vocabulary import Vocabulary
from tests.text import byte_pair_reference as reference
from tests.text import stress
from tests.text.code_points import assigned_characters

SPECIAL = list(SPECIAL_TOKENS.values())
TEXT = (
    "It's the cat that they've hidden, isn't it? They'll say  they're 1234 cats,\n\n  and I'd "
    "hide 12 hats... été, naïve “quotes” — 中国人 的 中国   \t tabs and  spaces."
)
MERGES = reference.learn(TEXT * 2, 150)
RANKS = {pair: rank for rank, pair in enumerate(MERGES)}


def vocabulary_of(tokens):
    return Vocabulary([*SPECIAL, *dict.fromkeys(tokens)], **SPECIAL_TOKENS)


VOCABULARY = vocabulary_of([*reference.ALPHABET, *(a + b for a, b in MERGES)])
TOKENIZER = BytePair(VOCABULARY, MERGES)
PREFIXED = BytePair(VOCABULARY, MERGES, add_prefix_space=True)

texts = st.lists(
    st.one_of(
        st.sampled_from([*TEXT, "'", "'s", "'ll", " ", "  ", "\n", "\0", "\u3000", "<mask>", "🙂"]),
        st.sampled_from([a + b for a, b in MERGES]).map(
            lambda t: bytes_of(t).decode("utf8", "ignore")
        ),
        st.characters(exclude_categories=["Cs", "Cn"]),
    ),
    max_size=30,
).map("".join)


def bytes_of(token):
    return bytes(reference.ALPHABET.index(character) for character in token)


def tokens_of(batch, tokenizer=TOKENIZER):
    return [[VOCABULARY.tokens[i] for i in row] for row in tokenizer.tokenize(batch).to_list()]


def hugging_face(tokenizer):
    """Hugging Face's tokenizer of the same vocabulary and merges."""
    tokens = {token: index for index, token in enumerate(tokenizer.vocabulary.tokens)}
    model = tokenizers.models.BPE(tokens, list(tokenizer.merges), unk_token="<unk>")
    peer = tokenizers.Tokenizer(model)
    prefix = {"add_prefix_space": tokenizer.add_prefix_space}
    peer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(**prefix)
    peer.post_processor = tokenizers.processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, **prefix
    )
    return peer


# The algorithm


def test_every_byte_has_gpt2s_character():
    assert list(BYTE_CHARACTERS) == reference.ALPHABET
    assert token_bytes("ĠaĊĀŃ") == b" a\n\0\xad"


@pytest.mark.slow
def test_kinds_are_those_of_unicode():
    characters = assigned_characters()
    kinds = kinds_of(np.array([ord(character) for character in characters]))
    for character, kind in zip(characters, kinds, strict=True):
        assert (kind == Kind.LETTER) == reference.is_letter(character)
        assert (kind == Kind.NUMBER) == reference.is_number(character)
        assert (kind in (Kind.WHITE, Kind.SPACE, Kind.LINE_END)) == reference.is_space(character)


@pytest.mark.slow
def test_splits_as_plain_python_for_every_assigned_character_in_context():
    characters = assigned_characters()
    contexts = [f"a{c}b {c}1{c}' '{c}s's{c}{c} \n{c}" for c in characters]
    found = split_words(tf.constant(contexts)).row_lengths(axis=2).to_list()
    expected = ([len(word.encode()) for word in reference.words(text)] for text in contexts)
    rows = zip(characters, found, expected, strict=True)
    assert [c for c, lengths, others in rows if lengths != others][:10] == []


@pytest.mark.parametrize("pattern", PATTERNS)
def test_splits_short_texts_as_the_regular_expression(pattern):
    """All texts of up to five characters, and all contractions."""
    few = itertools.chain.from_iterable(itertools.product("a1. \t\n'", repeat=n) for n in range(6))
    endings = itertools.product("'", "tRlve\u0120", "tEL1 ", "'.a ")
    assert differing_splits(pattern, ["".join(text) for text in (*few, *endings)]) == []


@pytest.mark.parametrize("pattern", PATTERNS)
@given(st.lists(texts, max_size=5))
@settings(max_examples=60, deadline=None)
def test_splits_as_the_regular_expression(pattern, batch):
    assert differing_splits(pattern, [text.replace("\u017f", "") for text in batch]) == []


def differing_splits(pattern, batch):
    """Texts that are split into other words than by `tokenizers` with the regular expression."""
    expression = tokenizers.Regex(PATTERNS[pattern])
    peer = tokenizers.pre_tokenizers.Split(expression, "isolated")
    lengths = split_words(tf.constant(batch, tf.string), pattern).row_lengths(axis=2).to_list()
    return [
        text
        for text, found in zip(batch, lengths, strict=True)
        if found != [len(word.encode()) for word, _ in peer.pre_tokenize_str(text)]
    ]


def test_llama3_does_not_know_the_long_s_of_a_contraction():
    """The only known difference: U+017F is an s without case."""
    batch = ["it'\u017fa", "it'sa", "'\u017f", "\u017fs"]
    assert differing_splits("llama3", batch) == ["it'\u017fa"]


def test_ignored_merges_keep_tokens_whole():
    whole = "".join(reference.ALPHABET[byte] for byte in b" zyzzyva")
    vocabulary = vocabulary_of([*VOCABULARY.tokens[len(SPECIAL) :], whole])
    tokens = BytePair(vocabulary, MERGES, ignore_merges=True).tokenize(["a zyzzyva zyzzyva", whole])
    assert (tokens.values.numpy() == len(vocabulary) - 1).sum() == 2
    merged = BytePair(vocabulary, MERGES).tokenize(["a zyzzyva zyzzyva"])
    assert len(vocabulary) - 1 not in merged.values


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pattern": "gpt4"}, "pattern is 'gpt4', but must be one of gpt2, llama3"),
        ({"pattern": "llama3", "add_prefix_space": True}, "works only with the pattern gpt2"),
    ],
)
def test_patterns_that_cannot_be_used(options, message):
    with pytest.raises(InputError, match=message):
        BytePair(VOCABULARY, MERGES, **options)


@given(st.lists(texts, max_size=5))
@settings(max_examples=60, deadline=None)
def test_equals_plain_python(batch):
    assert tokens_of(batch) == [reference.tokenize(text, RANKS) for text in batch]


@given(st.lists(st.text("' smtdrevl1.\n\u3000é", max_size=12), max_size=8))
@settings(max_examples=60, deadline=None)
def test_contractions_and_spaces_equal_plain_python(batch):
    assert tokens_of(batch) == [reference.tokenize(text, RANKS) for text in batch]


@given(st.lists(st.text(" " * 4 + "\t\n\u3000\x85\0\x01a.'s", max_size=10), max_size=8))
@settings(max_examples=60, deadline=None)
def test_cuts_in_runs_of_white_space_equal_plain_python(batch):
    assert tokens_of(batch) == [reference.tokenize(text, RANKS) for text in batch]


def test_cuts_of_texts_that_begin_and_end_with_spaces():
    batch = [
        f"{first}{word}{last}" for first in RUNS for word in ("", "a", "\x01a") for last in RUNS
    ]
    assert tokens_of(batch) == [reference.tokenize(text, RANKS) for text in batch]
    for tokenizer, peer in zip((TOKENIZER, PREFIXED), PEERS, strict=True):
        ids, *offsets = (rows.to_list() for rows in tokenizer.tokenize_with_offsets(batch))
        expected = [peer.encode(text, add_special_tokens=False) for text in batch]
        assert ids == [encoding.ids for encoding in expected]
        spans = [list(zip(*rows, strict=True)) for rows in zip(*offsets, strict=True)]
        assert spans == [encoding.offsets for encoding in expected]


RUNS = ["".join(run) for n in range(4) for run in itertools.product(" \n\u3000", repeat=n)]


@given(st.lists(texts, max_size=4), st.booleans())
@settings(max_examples=60, deadline=None)
def test_ids_and_offsets_equal_hugging_face(batch, prefix):
    tokenizer = PREFIXED if prefix else TOKENIZER
    ids, starts, ends = (x.to_list() for x in tokenizer.tokenize_with_offsets(batch))
    assert tokenizer.tokenize(batch).to_list() == ids
    for text, *found in zip(batch, ids, starts, ends, strict=True):
        expected = PEERS[prefix].encode(text, add_special_tokens=False)
        assert found[0] == expected.ids
        assert list(zip(*found[1:], strict=True)) == expected.offsets


PEERS = [hugging_face(TOKENIZER), hugging_face(PREFIXED)]


@pytest.mark.private_data
def test_no_difference_from_hugging_face_on_hard_lines(shared_data):
    assert stress.differences(shared_data, "roberta-base") == ({stress.SPECIAL_TOKEN: 1}, {})
    assert stress.differences(shared_data, "roberta-base", allow_special_tokens=True) == ({}, {})


def test_merges_that_could_be_made_in_another_way(shared_data):
    """The operation merges by the token that is made, not by the pair that it is made of."""
    tokenizer = stress.load_byte_pair(shared_data / "vocabs/roberta-base")
    ranks = {pair: rank for rank, pair in enumerate(tokenizer.merges)}
    made = [first + second for first, second in tokenizer.merges]
    tokens = {*made, *reference.ALPHABET}
    cuts = ((token[:i], token[i:]) for token in made for i in range(1, len(token)))
    others = [cut for cut in cuts if cut not in ranks and tokens.issuperset(cut)]
    assert len(others) > (50_000 if len(made) > 49_000 else 500)
    draw = random.Random(0)
    words = [
        draw.choice(made)[-2:] + "".join(draw.choice(others)) + draw.choice(made)[:2]
        for _ in range(2000)
    ]
    found = tokenizer._merge(tf.constant(words)).to_list()
    for word, ids in zip(words, found, strict=True):
        assert [tokenizer.vocabulary.tokens[i] for i in ids] == reference.merge(word, ranks)


# Texts of every kind


@given(st.lists(texts, max_size=4))
@settings(max_examples=30, deadline=None)
def test_text_comes_back(batch):
    assert TOKENIZER.detokenize(TOKENIZER.tokenize(batch)).numpy().tolist() == [
        text.encode() for text in batch
    ]


@given(st.lists(st.binary(max_size=40), max_size=4))
@settings(max_examples=30, deadline=None)
def test_bytes_that_are_no_text_come_back(batch):
    batch = tf.constant(batch, tf.string)
    ids, starts, ends = TOKENIZER.tokenize_with_offsets(batch)
    assert TOKENIZER.detokenize(ids).numpy().tolist() == batch.numpy().tolist()
    assert starts.shape[0] == ends.shape[0] == len(batch)


@pytest.mark.parametrize("text", ["a" * 100_000, "é" * 50_000, "中" * 40_000, " " * 100_000])
def test_long_words(text):
    ids, _, ends = TOKENIZER.tokenize_with_offsets(["cat", text])
    assert TOKENIZER.detokenize(ids).numpy().tolist() == [b"cat", text.encode()]
    assert ids.to_list()[1] == hugging_face(TOKENIZER).encode(text, add_special_tokens=False).ids
    assert ends.to_list()[1][-1] == len(text)


def test_a_long_word_among_many_words_fits_into_memory():
    words = " ".join(f"w{number}" for number in range(30_000))
    _, _, ends = TOKENIZER.tokenize_with_offsets([words, "x" * 100_000])
    assert [row[-1] for row in ends.to_list()] == [len(words), 100_000]


def test_a_lone_surrogate_is_the_replacement_character():
    assert tokens_of(["a\ud800b"]) == tokens_of(["a\ufffdb"])


def test_no_texts_and_empty_texts():
    assert TOKENIZER.tokenize([]).to_list() == []
    for tokenizer in (TOKENIZER, PREFIXED):
        for rows in tokenizer.tokenize_with_offsets(["", "a", ""]):
            assert [bool(row) for row in rows.to_list()] == [False, True, False]
            assert rows.dtype == tf.int32
    assert tokens_of("it") == tokens_of(["it"])


def test_special_tokens_in_text():
    text = "the <mask> cat</s>"
    assert tokens_of([text])[0] == reference.tokenize(text, RANKS)
    ids, starts, ends = TOKENIZER.tokenize_with_offsets([text], allow_special_tokens=True)
    tokens = [VOCABULARY.tokens[i] for i in ids.to_list()[0]]
    the, cat = (reference.tokenize(word, RANKS) for word in ("the", " cat"))
    assert tokens == [*the, "<mask>", *cat, "</s>"]
    assert ends.to_list()[0][-1] == len(text)
    assert starts.to_list()[0][len(the)] == text.index("<mask>")
    keeping = BytePair(VOCABULARY, MERGES, mask_takes_space=False)
    kept = keeping.tokenize([text], allow_special_tokens=True)
    assert len(kept.values) == len(tokens) + 1


def test_padding_and_separators_are_left_out_of_text():
    ids = TOKENIZER.tokenize(["the cat"]).to_list()[0]
    with_special = [[VOCABULARY.cls_id, *ids, VOCABULARY.mask_id, VOCABULARY.separator_id, 1, 1]]
    assert TOKENIZER.detokenize(with_special).numpy().tolist() == [b"the cat<mask>"]


# Vocabularies


def test_a_vocabulary_of_letters_needs_no_merges():
    vocabulary = vocabulary_of("ACDEFGHIKLMNPQRSTVWY")
    tokenizer = BytePair(vocabulary)
    assert tokenizer.tokenize(["EVQL", "A x", "é"]).to_list() == [
        [8, 22, 18, 14],
        [5, 3, 3],
        [3, 3],
    ]
    assert not tokenizer.is_continuation.any()
    peer = hugging_face(tokenizer)
    for text in ("EVQLVESGGG", "A  x\n", "é中A"):
        expected = peer.encode(text, add_special_tokens=False)
        ids, _, ends = (x.to_list()[0] for x in tokenizer.tokenize_with_offsets([text]))
        assert ids == expected.ids
        # What the text was is not known of an unknown token, so its spaces stay.
        assert ends == [end for _, end in expected.offsets]


@pytest.mark.private_data
def test_antibody_letters(shared_data):
    folder = shared_data / "weights/roberta-antibody"
    tokenizer = BytePair.load(folder, special_tokens=SPECIAL_TOKENS)
    assert len(tokenizer.vocabulary) == 25
    assert tokenizer.merges == ()
    text = "EVQLVESGGGLVQPGGSLRLSCAAS"
    ids = tokenizer.tokenize([text]).to_list()[0]
    assert [tokenizer.vocabulary.tokens[i] for i in ids] == list(text)


def test_special_tokens_are_never_found_in_text():
    vocabulary = Vocabulary(
        [*SPECIAL[:4], *"abc", "ab"],
        **{**SPECIAL_TOKENS, "mask": "ab"},
    )
    assert BytePair(vocabulary, [("a", "b")]).tokenize(["abc"]).to_list() == [[4, 5, 6]]


def test_which_tokens_begin_a_word():
    continues = dict(zip(VOCABULARY.tokens, TOKENIZER.is_continuation.tolist(), strict=True))
    assert continues["a"]
    assert not continues["Ġ"]
    assert not continues["Ġthe"]
    assert not any(continues[token] for token in SPECIAL)
    assert TOKENIZER.readable(VOCABULARY.id_of("Ġthe")) == " the"


def test_merges_of_another_vocabulary():
    with pytest.raises(InputError, match="'zq'.* not in the vocabulary"):
        BytePair(VOCABULARY, [("z", "q")])


# Graphs and files


def test_in_a_dataset_and_a_saved_model(tmp_path):
    batch = [TEXT, "", "the cat's hat é", "a <mask>"]
    expected = TOKENIZER.tokenize(batch).to_list()
    dataset = tf.data.Dataset.from_tensor_slices(batch).batch(3).map(TOKENIZER.tokenize)
    assert [row for rows in dataset for row in rows.to_list()] == expected

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def tokenize(x):
        ids, starts, ends = TOKENIZER.tokenize_with_offsets(x)
        return {"ids": ids.to_tensor(-1), "starts": starts.to_tensor(), "ends": ends.to_tensor()}

    assert tokenize(tf.zeros([0], tf.string))["ids"].shape == [0, 0]
    module = tf.Module()
    module.tokenize = tokenize
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path)).tokenize(tf.constant(batch))
    found = [[i for i in row if i >= 0] for row in loaded["ids"].numpy().tolist()]
    assert found == expected


@pytest.mark.parametrize("tokenizer", [TOKENIZER, PREFIXED])
def test_configuration_and_files(tokenizer, tmp_path):
    again = BytePair.from_config(json.loads(json.dumps(tokenizer.get_config())))
    assert again.get_config() == tokenizer.get_config()
    tokenizer.save(tmp_path)
    options = {"special_tokens": SPECIAL_TOKENS, "add_prefix_space": tokenizer.add_prefix_space}
    loaded = BytePair.load(tmp_path, **options)
    assert loaded.get_config() == tokenizer.get_config()
    peer = tokenizers.ByteLevelBPETokenizer(
        str(tmp_path / "vocab.json"),
        str(tmp_path / "merges.txt"),
        add_prefix_space=tokenizer.add_prefix_space,
    )
    assert loaded.tokenize([TEXT]).to_list()[0] == peer.encode(TEXT).ids


def test_damaged_files(tmp_path):
    options = {"special_tokens": SPECIAL_TOKENS}
    with pytest.raises(InputError, match="vocab.json does not exist"):
        BytePair.load(tmp_path, **options)
    TOKENIZER.save(tmp_path)
    merges, tokens = tmp_path / "merges.txt", tmp_path / "vocab.json"
    whole = merges.read_text("utf-8")
    merges.write_text(whole + "a b c\n", "utf-8")
    with pytest.raises(
        InputError, match=f"merges.txt, line {len(MERGES) + 2}: expected two tokens"
    ):
        BytePair.load(tmp_path, **options)
    merges.write_text(whole + "q q\n", "utf-8")
    with pytest.raises(InputError, match="vocab.json: The merge q q needs 'qq'"):
        BytePair.load(tmp_path, **options)
    merges.unlink()
    with pytest.raises(InputError, match="merges.txt does not exist"):
        BytePair.load(tmp_path, **options)
    tokens.write_text('{"a": 0, "b": 2}', "utf-8")
    with pytest.raises(InputError, match="none with the id 1"):
        BytePair.load(tmp_path, **options)
    tokens.write_text("[1, 2]", "utf-8")
    with pytest.raises(InputError, match="must be a JSON object"):
        BytePair.load(tmp_path, **options)


# Learning


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(f"{TEXT}\n" * 5, "utf-8")
    return path


def test_a_learned_vocabulary(corpus):
    tokenizer = learn_byte_pair(corpus, 320)
    vocabulary = tokenizer.vocabulary
    assert list(vocabulary.tokens[:5]) == ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    assert len(vocabulary) == 320
    assert set(reference.ALPHABET) <= set(vocabulary.tokens)
    assert tokenizer.merges[0] == ("Ġ", "t")
    assert learn_byte_pair([corpus], 320).get_config() == tokenizer.get_config()
    longer = learn_byte_pair(corpus, 300).tokenize([TEXT])
    assert len(tokenizer.tokenize([TEXT]).values) < len(longer.values) < len(TEXT.encode())


def test_a_size_without_room_for_the_bytes(corpus):
    with pytest.raises(InputError, match="100 tokens cannot hold all bytes: give it at least 261"):
        learn_byte_pair(corpus, 100)
