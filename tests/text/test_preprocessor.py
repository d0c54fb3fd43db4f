import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_bert.errors import InputError
from keras_bert.text.preprocessor import Preprocessor, layout
from keras_bert.text.vocabulary import Vocabulary
from keras_bert.text.wordpiece.tokenizer import WordPiece

LETTERS = [*"abcdefghijklmnopqrstuvwxyz"]
VOCABULARY = Vocabulary(
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{c}" for c in LETTERS), "é"]
)
TOKENIZER = WordPiece(VOCABULARY)
PREPROCESSOR = Preprocessor(TOKENIZER, 12)
PAD, UNKNOWN, CLS, SEPARATOR, MASK = VOCABULARY.special_ids

rows = st.lists(st.lists(st.integers(5, 40), max_size=14), max_size=5)
pairs = st.integers(0, 5).flatmap(
    lambda n: st.tuples(
        *[st.lists(st.lists(st.integers(5, 40), max_size=14), min_size=n, max_size=n)] * 2
    )
)


def ragged(lists):
    return tf.ragged.constant(lists, tf.int32, ragged_rank=1)


def packed_in_python(segments, length):
    """One token at a time from the end of the longer segment, as BERT's `_truncate_seq_pair`."""
    segments = [list(segment) for segment in segments]
    while sum(map(len, segments)) > length - len(segments) - 1:
        longest = max(range(len(segments)), key=lambda i: (len(segments[i]), i))
        segments[longest].pop()
    ids, segment_ids = [CLS], [0]
    for number, segment in enumerate(segments):
        ids += [*segment, SEPARATOR]
        segment_ids += [number] * (len(segment) + 1)
    padding = [0] * (length - len(ids))
    return ids + padding, segment_ids + padding, [1] * len(ids) + padding


def assert_packed(outputs, examples, length):
    for name, value in outputs.items():
        assert value.dtype == tf.int32, name
        assert value.shape == (len(examples), length), name
    for row, segments in enumerate(examples):
        expected = packed_in_python(segments, length)
        found = [
            outputs[k][row].numpy().tolist() for k in ("token_ids", "segment_ids", "padding_mask")
        ]
        assert found == list(expected)


@given(rows, st.integers(3, 16))
@settings(max_examples=60, deadline=None)
def test_pack_single(lists, length):
    outputs = layout([ragged(lists)], length).inputs([ragged(lists)], VOCABULARY)
    assert_packed(outputs, [(x,) for x in lists], length)


@given(pairs, st.integers(5, 20))
@settings(max_examples=100, deadline=None)
def test_pack_pair(lists, length):
    segments = [ragged(side) for side in lists]
    outputs = layout(segments, length).inputs(segments, VOCABULARY)
    assert_packed(outputs, list(zip(*lists, strict=True)), length)


def test_pack_without_room():
    with pytest.raises(InputError, match="length of 4 leaves no room for text: .* at least 5"):
        layout([ragged([[5]])] * 2, 4)
    with pytest.raises(InputError, match="one text or a pair of texts, got 3"):
        layout([ragged([[5]])] * 3, 10)


def test_texts_of_every_kind():
    expected = PREPROCESSOR(["ab c"])
    assert expected["token_ids"].numpy().tolist()[0][:6] == [CLS, 5, 32, 7, SEPARATOR, PAD]
    for texts in ("ab c", b"ab c", np.array(["ab c"]), tf.constant(["ab c"]), tf.constant("ab c")):
        outputs = PREPROCESSOR(texts)
        assert set(outputs) == {"token_ids", "segment_ids", "padding_mask"}
        assert all(np.array_equal(outputs[name], expected[name]) for name in outputs)
    pair = PREPROCESSOR(("ab", ["c"]))
    assert pair["token_ids"].numpy().tolist()[0][:7] == [CLS, 5, 32, SEPARATOR, 7, SEPARATOR, PAD]
    assert pair["segment_ids"].numpy().tolist()[0][:7] == [0, 0, 0, 0, 1, 1, 0]


def test_empty_batches():
    for texts in ([], ([], []), np.array([], str)):
        outputs = PREPROCESSOR(texts, return_offsets=True)
        assert {value.shape for value in outputs.values()} == {(0, 12)}


@pytest.mark.parametrize("allow_special_tokens", [False, True])
def test_offsets(allow_special_tokens):
    texts = (["É\u0301b c", "a"], ["\u200bx \ud800y", "[MASK]"])
    options = {"return_offsets": True, "allow_special_tokens": allow_special_tokens}
    outputs = {k: v.numpy() for k, v in PREPROCESSOR(texts, **options).items()}
    special = np.isin(outputs["token_ids"], [PAD, CLS, SEPARATOR])
    assert not outputs["starts"][special].any()
    assert not outputs["ends"][special].any()
    for row, column in zip(*np.nonzero(~special), strict=True):
        text = texts[outputs["segment_ids"][row, column]][row]
        token = VOCABULARY.tokens[outputs["token_ids"][row, column]].removeprefix("##")
        covered = text[outputs["starts"][row, column] : outputs["ends"][row, column]]
        if token != "[UNK]":
            assert covered.lower() == ("é" if token == "e" else token.lower())
    assert (MASK in outputs["token_ids"]) == allow_special_tokens


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((["a"], ["b", "c"]), "have 1 and 2 texts, but must have the same number"),
        ((["a"], ["b"], ["c"]), "one text or a pair of texts, got 3"),
        ([["a", "b"]], r"must have the shape \[N\], not \[N, 2\]; for pairs"),
        ([3], "must be strings, not int32"),
    ],
)
def test_bad_texts(texts, message):
    with pytest.raises(InputError, match=message):
        PREPROCESSOR(texts)


def test_bad_length():
    with pytest.raises(InputError, match="sequence_length must be at least 3, not 2"):
        Preprocessor(TOKENIZER, 2)


def test_with_length():
    longer = PREPROCESSOR.with_length(40)
    assert longer.sequence_length == 40
    assert longer.tokenizer is PREPROCESSOR.tokenizer
    assert longer(["a"])["token_ids"].shape == (1, 16)
    assert longer(["a " * 100])["token_ids"].shape == (1, 40)
    fixed = longer.with_length(40, padding="max_length")
    assert fixed(["a"])["token_ids"].shape == (1, 40)
    assert fixed.with_length(30).padding == "max_length"


def test_config_and_files_round_trip(tmp_path):
    config = json.loads(json.dumps(PREPROCESSOR.get_config()))
    assert Preprocessor.from_config(config).get_config() == PREPROCESSOR.get_config()
    serialized = keras.saving.serialize_keras_object(PREPROCESSOR)
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(serialized)))
    assert again.get_config() == PREPROCESSOR.get_config()
    PREPROCESSOR.save(tmp_path / "new")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [
        "preprocessor.json",
        "vocab.txt",
    ]
    assert Preprocessor.load(tmp_path / "new").get_config() == PREPROCESSOR.get_config()


def test_bad_directories(tmp_path):
    with pytest.raises(InputError, match=r"preprocessor.json does not exist"):
        Preprocessor.load(tmp_path)
    VOCABULARY.save(tmp_path / "vocab.txt")
    good = {"tokenizer": {"special_tokens": {}}, "sequence_length": 5}
    wrong = [{}, [], good | {"sequence_length": "x"}, good | {"tokenizer": 3}]
    wrong.append({"tokenizer": {"special_tokens": {}, "upper": True}, "sequence_length": 5})
    for content in ("{", *map(json.dumps, wrong)):
        (tmp_path / "preprocessor.json").write_text(content)
        with pytest.raises(InputError, match="is not a preprocessor's configuration"):
            Preprocessor.load(tmp_path)
    (tmp_path / "preprocessor.json").write_text(json.dumps(good))
    assert Preprocessor.load(tmp_path).sequence_length == 5
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(InputError, match=r"vocab.txt does not exist"):
        Preprocessor.load(tmp_path)


def test_in_a_dataset_shapes_are_static():
    fixed = PREPROCESSOR.with_length(12, padding="max_length")
    dataset = tf.data.Dataset.from_tensor_slices((["ab c", "d", ""], ["e", "f g", "h"]))
    mapped = dataset.batch(2).map(lambda a, b: fixed((a, b), return_offsets=True))
    assert {spec.shape.as_list()[1] for spec in mapped.element_spec.values()} == {12}
    expected = fixed((["ab c", "d", ""], ["e", "f g", "h"]), return_offsets=True)
    for name, value in expected.items():
        assert np.array_equal(np.concatenate([batch[name] for batch in mapped]), value)


def test_in_a_saved_model(tmp_path):
    module = tf.Module()
    signature = [tf.TensorSpec([None], tf.string)]
    module.run = tf.function(lambda texts: PREPROCESSOR(texts), input_signature=signature)
    tf.saved_model.save(module, tmp_path / "saved")
    texts = ["ab c", "", "é" * 101 + " a", "a\0b"]
    loaded, expected = tf.saved_model.load(tmp_path / "saved").run(texts), PREPROCESSOR(texts)
    assert all(np.array_equal(loaded[name], expected[name]) for name in expected)


def test_in_tflite():
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    from tensorflow_text import tflite_registrar

    spec = tf.TensorSpec([1], tf.string, "text")
    module = tf.Module()
    fixed = PREPROCESSOR.with_length(12, padding="max_length")  # TFLite cannot search a length
    module.run = tf.function(lambda text: fixed(text), input_signature=[spec])
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [module.run.get_concrete_function()], module
    )
    converter.allow_custom_ops = True
    interpreter = litert.InterpreterWithCustomOps(
        model_content=converter.convert(),
        custom_op_registerers=tflite_registrar.SELECT_TFTEXT_OPS,
    )
    runner = interpreter.get_signature_runner()
    for text in ("ab c", "", "É\u0301 ß", "z" * 101 + " a", "é" * 99, "a\0b", "a" * 100_000, "🙂"):
        outputs, expected = runner(text=np.array([text.encode()], object)), fixed(text)
        assert all(np.array_equal(outputs[name], expected[name]) for name in expected), text
