"""Tokenizers of every kind: from files, in preprocessors, back to files."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert.text.byte_pair.tokenizer import BYTE_CHARACTERS, BytePair
from keras_bert.text.sentencepiece.model import SentencePieceModel
from keras_bert.text.sentencepiece.tokenizer import SentencePiece
from keras_bert.text.tokenizer import load_tokenizer

ROLES = ("pad", "unknown", "cls", "separator", "mask")
ROBERTA = dict(zip(ROLES, ("<pad>", "<unk>", "<s>", "</s>", "<mask>"), strict=True))
BERT = dict(zip(ROLES, ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), strict=True))
TEXTS = ["the cat", " a  the\ncat", "", "<mask>x", "[MASK] é"]


def byte_pair(**options):
    tokens = [*ROBERTA.values(), *BYTE_CHARACTERS, "th", "the", "Ġthe"]
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the")]
    return BytePair(kb.Vocabulary(tokens, **ROBERTA), merges, **options)


def sentencepiece(special=BERT, with_mask=True, **options):
    pieces = [*list(special.values())[: 5 if with_mask else 4], "▁", *"aceht", "▁the", "▁cat"]
    model = SentencePieceModel.from_pieces(
        pieces,
        [-float(index) for index in range(len(pieces))],
        unknown_id=1,
        control=[piece for piece in pieces[:5] if piece in special.values()],
    )
    return SentencePiece(model.to_bytes(), special_tokens=special, **options)


def wordpiece():
    tokens = [*BERT.values(), "the", "cat", "a", "x", "##x"]
    return kb.WordPiece(kb.Vocabulary(tokens), lowercase=False)


KINDS = {"wordpiece": wordpiece, "byte_pair": byte_pair, "sentencepiece": sentencepiece}
FILES = {
    "wordpiece": ["vocab.txt"],
    "byte_pair": ["merges.txt", "vocab.json"],
    "sentencepiece": ["spiece.model"],
}


@pytest.mark.parametrize("kind", KINDS)
def test_preprocessor_round_trips(kind, tmp_path):
    preprocessor = kb.Preprocessor(KINDS[kind](), 14, separators_in_pair=2, num_segments=1)
    config = preprocessor.get_config()
    assert config["tokenizer"]["kind"] == kind
    again = kb.Preprocessor.from_config(json.loads(json.dumps(config)))
    serialized = json.loads(json.dumps(keras.saving.serialize_keras_object(preprocessor)))
    from_keras = keras.saving.deserialize_keras_object(serialized)
    preprocessor.save(tmp_path / "new")
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == sorted(["preprocessor.json", *FILES[kind]])
    from_files = kb.Preprocessor.load(tmp_path / "new")
    opened = load_tokenizer(tmp_path / "new")
    for other in (again, from_keras, from_files, preprocessor.with_length(14)):
        assert other.get_config() == config
    assert opened.get_config() == preprocessor.tokenizer.get_config()
    expected = preprocessor((TEXTS, TEXTS), allow_special_tokens=True, return_offsets=True)
    found = from_files((TEXTS, TEXTS), allow_special_tokens=True, return_offsets=True)
    assert all(np.array_equal(expected[name], found[name]) for name in expected)


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_dataset_and_a_saved_model(kind, tmp_path):
    preprocessor = kb.Preprocessor(KINDS[kind](), 14)
    expected = preprocessor((TEXTS, TEXTS))
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, TEXTS)).batch(2)
    mapped = list(dataset.map(lambda a, b: preprocessor((a, b))))
    for name, value in expected.items():
        assert np.array_equal(np.concatenate([batch[name] for batch in mapped]), value)
    module = tf.Module()
    signature = [tf.TensorSpec([None], tf.string)] * 2
    module.run = tf.function(lambda a, b: preprocessor((a, b)), input_signature=signature)
    tf.saved_model.save(module, tmp_path / "saved")
    found = tf.saved_model.load(tmp_path / "saved").run(TEXTS, TEXTS)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_two_separators_and_no_segments():
    preprocessor = kb.Preprocessor(byte_pair(), 12, separators_in_pair=2, num_segments=1)
    cls, separator, pad = (preprocessor.vocabulary.id_of(t) for t in ("<s>", "</s>", "<pad>"))
    the = preprocessor.vocabulary.id_of("the")
    outputs = preprocessor((["thethe", "the" * 10], ["the", "the" * 3]), return_offsets=True)
    assert outputs["token_ids"].numpy().tolist() == [
        [cls, the, the, separator, separator, the, separator, *[pad] * 5],
        [cls, *[the] * 5, separator, separator, *[the] * 3, separator],
    ]
    assert outputs["padding_mask"].numpy().sum(1).tolist() == [7, 12]
    assert not outputs["segment_ids"].numpy().any()
    assert outputs["starts"].numpy()[0].tolist() == [0, 0, 3, *[0] * 9]
    two_segments = kb.Preprocessor(byte_pair(), 9, separators_in_pair=2)((["the"], ["the"]))
    assert two_segments["segment_ids"].numpy().tolist() == [[0, 0, 0, 0, 1, 1, 0, 0, 0]]
    single = preprocessor(["the"])["token_ids"].numpy().tolist()
    assert single == [[cls, the, separator, *[pad] * 9]]
    with pytest.raises(kb.InputError, match="length of 5 leaves no room for text: .* at least 6"):
        preprocessor.with_length(5)((["a"], ["b"]))
    with pytest.raises(kb.InputError, match="separators_in_pair must be 1 or 2, not 3"):
        kb.Preprocessor(byte_pair(), 12, separators_in_pair=3)


def test_a_mask_takes_the_space_before_it():
    texts = ["the \t<mask> the", "<s><mask>", "a\0 <mask>"]
    ids, starts, ends = byte_pair().tokenize_with_offsets(texts, allow_special_tokens=True)
    plain = byte_pair(mask_takes_space=False).tokenize(texts, allow_special_tokens=True)
    tokens = byte_pair().vocabulary.tokens
    assert [[tokens[i] for i in row] for row in ids.to_list()] == [
        ["the", "<mask>", "Ġthe"],
        ["<s>", "<mask>"],
        ["a", "Ā", "<mask>"],
    ]
    assert starts.to_list()[0] == [0, 5, 12]
    assert ends.to_list()[0] == [3, 11, 15]
    assert [tokens[i] for i in plain.to_list()[0]] == ["the", "Ġ", "ĉ", "<mask>", "Ġthe"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("as_file", [True, False])
def test_loads_plain_files(kind, as_file, tmp_path):
    tokenizer = KINDS[kind]()
    tokenizer.save(tmp_path)
    options = {"lowercase": False} if kind == "wordpiece" else {}
    path = tmp_path / FILES[kind][-1] if as_file else tmp_path
    assert load_tokenizer(path, **options).get_config() == tokenizer.get_config()


def test_special_tokens_are_found_or_told(tmp_path):
    assert load_tokenizer(_saved(byte_pair(), tmp_path)).vocabulary.special_tokens == ROBERTA
    without_mask = sentencepiece(with_mask=False, last_tokens=["[MASK]"])
    loaded = load_tokenizer(_saved(without_mask, tmp_path / "without"))
    assert loaded.get_config() == without_mask.get_config()
    others = {role: f"*{role}*" for role in ROLES}
    other = kb.WordPiece(kb.Vocabulary([*others.values(), "a"], **others))
    path = _saved(other, tmp_path / "other")
    assert load_tokenizer(path, special_tokens=others).get_config() == other.get_config()
    with pytest.raises(kb.InputError, match=r"has no \[PAD\]"):
        load_tokenizer(path)


def _saved(tokenizer, directory):
    directory.mkdir(exist_ok=True)
    tokenizer.save(directory)
    return directory


@pytest.mark.parametrize("index", ["Infinity", "0.5", '"0"', "[0]"])
def test_ids_that_are_no_integers(index, tmp_path):
    (tmp_path / "vocab.json").write_text(f'{{"a": {index}}}')
    with pytest.raises(kb.InputError, match="must be a JSON object of tokens and their ids"):
        load_tokenizer(tmp_path)


def test_what_cannot_be_loaded(tmp_path):
    with pytest.raises(kb.InputError, match="nothing does not exist"):
        load_tokenizer(tmp_path / "nothing")
    with pytest.raises(kb.InputError, match=r"holds no tokenizer: expected vocab.txt, vocab.json"):
        load_tokenizer(tmp_path)
    _saved(byte_pair(), tmp_path)
    with pytest.raises(kb.InputError, match=r"BytePair got .*'lowercase'"):
        load_tokenizer(tmp_path, lowercase=True)
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(kb.InputError, match=r"merges.txt does not exist"):
        load_tokenizer(tmp_path)
    (tmp_path / "vocab.json").rename(tmp_path / "tokens.json")
    with pytest.raises(kb.InputError, match=r"tokens.json must have the name vocab.json"):
        load_tokenizer(tmp_path / "tokens.json")
    (tmp_path / "x.model").write_bytes(b"nothing of the kind")
    with pytest.raises(kb.InputError, match=r"x.model"):
        load_tokenizer(tmp_path)
    kb.Preprocessor(wordpiece(), 8).save(tmp_path / "p")
    with pytest.raises(kb.InputError, match="leave out lowercase"):
        load_tokenizer(tmp_path / "p", lowercase=True)
    config = json.loads((tmp_path / "p" / "preprocessor.json").read_text())
    config["tokenizer"]["kind"] = "words"
    (tmp_path / "p" / "preprocessor.json").write_text(json.dumps(config))
    with pytest.raises(kb.InputError, match="no tokenizer 'words'; the tokenizers are wordpiece"):
        kb.Preprocessor.load(tmp_path / "p")


@pytest.mark.parametrize("kind", KINDS)
def test_setting_a_seed_loses_nothing(kind):
    """TensorFlow then clears its kernels, and with them resources made outside of graphs."""
    tokenizer = KINDS[kind]()
    before = [ids.to_list() for ids in tokenizer.tokenize_with_offsets(TEXTS)]
    tokenizer.tokenize(TEXTS)
    keras.utils.set_random_seed(1)
    assert [ids.to_list() for ids in tokenizer.tokenize_with_offsets(TEXTS)] == before
    assert tokenizer.tokenize(TEXTS).to_list() == before[0]
