"""Windows of long texts give the same as each window alone, pooled in NumPy."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert import InputError
from keras_bert.layers.windows import divide, text_length, window_count
from tests.finetuning import tiny
from tests.marks import others_swept

LENGTH = 10  # of a window: 8 words, of which neighbors share 2
COUNTS = (0, 1, 7, 8, 9, 14, 15, 20, 21, 50)
NUMPY_POOLINGS = {"mean": np.mean, "max": np.max}


def texts_of(counts=COUNTS, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(tiny.WORDS, count)) for count in counts]


def classifier(windows="mean", length=LENGTH, **arguments):
    arguments = {"pooling": "mean", "windows": windows, **arguments}
    return tiny.classifier(preprocessor=tiny.preprocessor(length), **arguments)


def embedder(windows="mean", length=LENGTH, **arguments):
    keras.utils.set_random_seed(0)
    arguments = {"windows": windows, "preprocessor": tiny.preprocessor(length), **arguments}
    return kb.TextEmbedder(tiny.encoder(), **arguments)


def each_window_alone(model, texts):
    """The vectors `[N, H]` of texts, from vectors of single windows."""
    rows = model.preprocessor.rows(texts, overlap="auto")
    vectors = []
    for index in range(len(rows)):
        inputs = rows.padded([index], multiple=1)
        outputs = model.encoder(inputs)
        vectors.append(np.asarray(model.text_pooling(outputs, inputs["padding_mask"]))[0])
    pool, vectors = NUMPY_POOLINGS[model.windows], np.stack(vectors)
    return np.stack([pool(vectors[rows.sample_ids == n], axis=0) for n in range(len(texts))])


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("length", [3, 4, 5, LENGTH, 16])
def test_rows_are_divided_as_by_the_preprocessor(length, at_end):
    texts = texts_of()
    preprocessor = kb.Preprocessor(
        tiny.preprocessor().tokenizer, sequence_length=length, separator_at_end=at_end
    )
    expected = preprocessor.rows(texts, overlap="auto")
    parts, is_window = divide(preprocessor.with_length(100)(texts), length, at_end)
    assert np.array_equal(np.sum(is_window, axis=1), np.bincount(expected.sample_ids))
    kept = {name: np.asarray(ids)[np.ravel(is_window)] for name, ids in parts.items()}
    for index in range(len(expected)):
        inside = kept["padding_mask"][index].astype(bool)
        assert inside.sum() == expected.lengths[index]
        for name in ("token_ids", "segment_ids"):
            assert np.array_equal(kept[name][index][inside], expected.row(index)[name])
    for size in range(1, 200):
        count = window_count(size, length, at_end)
        assert text_length(length, count, at_end) >= size
        assert count == 1 or text_length(length, count - 1, at_end) < size


@pytest.mark.parametrize(
    ("windows", "pooling"),
    others_swept([("max", "mean"), ("mean", "pooled"), ("mean", "first"), ("max", "attention")]),
)
def test_logits_of_windows(windows, pooling):
    model, texts = classifier(windows, pooling=pooling), texts_of()
    expected = np.asarray(model.head(each_window_alone(model, texts)))
    inputs = model.text_preprocessor(texts)
    specs = {name: tf.TensorSpec([None, None], tf.int32) for name in inputs}
    in_graph = tf.function(model).get_concrete_function(specs)
    ways = {
        "call": model(inputs),
        "call without padding_mask": model({"token_ids": inputs["token_ids"][-1:, :52]}),
        "graph": in_graph(inputs),
        "graph of short texts": in_graph({name: ids[:3, :9] for name, ids in inputs.items()}),
        "predict": model.predict(texts, verbose=0),
        "rows": np.stack(model.predict_rows(model.rows(texts), batch_size=16)),
    }
    short = {"graph of short texts": slice(3), "call without padding_mask": slice(-1, None)}
    for way, actual in ways.items():
        rows = short.get(way, slice(None))
        np.testing.assert_allclose(actual, expected[rows], rtol=0, atol=1e-5, err_msg=way)


@pytest.mark.parametrize("windows", NUMPY_POOLINGS)
def test_vectors_of_windows(windows):
    model, texts = embedder(windows), texts_of()
    expected = each_window_alone(model, texts)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(model.encode(texts), expected, rtol=0, atol=1e-5)
    groups = model.predict((texts, texts[::-1]), verbose=0)  # as `fit` sees them
    np.testing.assert_allclose(groups[:, 0], expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(groups[:, 1], expected[::-1], rtol=0, atol=1e-5)


def test_vectors_of_windows_without_a_separator_at_the_end():
    tokenizer, texts = tiny.preprocessor().tokenizer, texts_of()
    preprocessor = kb.Preprocessor(tokenizer, sequence_length=LENGTH, separator_at_end=False)
    model = embedder(preprocessor=preprocessor, normalize=False)
    expected = each_window_alone(model, texts)
    np.testing.assert_allclose(model.encode(texts), expected, rtol=0, atol=1e-5)


def test_longer_texts_are_cut_to_the_largest_number_of_windows():
    model = classifier(max_windows=3)
    assert model.text_length == 2 + 8 + 2 * 6
    long, cut = ([" ".join(["good"] * 20 + rest)] for rest in (["bad"] * 30, []))
    np.testing.assert_allclose(
        model.predict(long, verbose=0), model.predict(cut, verbose=0), atol=1e-6
    )


def test_without_windows_texts_are_cut():
    model = classifier(windows=None)
    assert model.text_preprocessor is model.preprocessor
    assert model.text_length == LENGTH


def test_a_change_of_the_preprocessor_changes_the_windows():
    model, texts = classifier(), texts_of()
    model.predict(texts, verbose=0)
    model.preprocessor = model.preprocessor.with_length(16)
    expected = np.asarray(model.head(each_window_alone(model, texts)))
    np.testing.assert_allclose(model.predict(texts, verbose=0), expected, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_fit_learns_from_the_end_of_long_texts():
    """The label is the last word; without windows, it is cut."""
    rng = np.random.default_rng(0)
    labels = ["bad", "good"] * 32
    texts = [" ".join([*rng.choice(["the", "a", "film"], 40), label]) for label in labels]

    def accuracy(windows):
        model = classifier(windows, encoder_options=tiny.NO_DROPOUT, dropout=0.0)
        options = {"metrics": ["accuracy"], "jit_compile": False}
        model.compile(keras.optimizers.Adam(1e-2), model.default_loss(), **options)
        model.fit(texts, labels, batch_size=16, epochs=8, verbose=0)
        return model.evaluate(texts, labels, verbose=0)[1]

    assert accuracy("max") == 1.0
    assert accuracy(None) < 0.8


def test_xla_computes_windows():
    model, texts = classifier("max"), texts_of()
    inputs = dict(model.text_preprocessor(texts))
    compiled = tf.function(model, jit_compile=True)
    np.testing.assert_allclose(compiled(inputs), model(inputs), rtol=0, atol=1e-5)


@pytest.mark.parametrize("make", others_swept([classifier, embedder]))
def test_saved_models_keep_their_windows(make, tmp_path):
    model, texts = make("max", max_windows=5), texts_of()
    kb.save(model, tmp_path / "native")
    model.save(tmp_path / "model.keras")
    expected = model.predict(texts, verbose=0)
    for path in ("native", "model.keras"):
        loaded = kb.load(tmp_path / path)
        assert (loaded.windows, loaded.max_windows) == ("max", 5)
        np.testing.assert_allclose(loaded.predict(texts, verbose=0), expected, rtol=0, atol=1e-6)
    cut = kb.load(tmp_path / "native", windows=None)
    assert cut.text_length == LENGTH
    assert "divided into at most 5 windows" in (tmp_path / "native" / "README.md").read_text()


@pytest.mark.parametrize(
    ("make", "format"),
    [
        (classifier, "huggingface"),
        (classifier, "keras-hub"),
        (classifier, "google"),
        (embedder, "sentence-transformers"),
    ],
)
def test_other_formats_refuse_windows(make, format, tmp_path):
    options = {"pooling": "mean"}
    if make is classifier:
        options = {"pooling": "pooled", "encoder_options": {"activation": "gelu_tanh"}}
    with pytest.raises(InputError, match="windows is 'mean'"):
        kb.save(make(**options), tmp_path, format=format)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("method", ["predict_text", "predict_on_batch"])
def test_pairs_have_no_windows(method):
    with pytest.raises(InputError, match="only single texts can be read in windows, not pairs"):
        getattr(classifier(), method)((["good"], ["bad"]))


def test_wrong_arguments():
    with pytest.raises(InputError, match=r"windows is 'maximum', but must be 'mean' or 'max'"):
        classifier("maximum")
    with pytest.raises(InputError, match="max_windows is 0, but must be 1 or more"):
        embedder(max_windows=0)


LONG, SHORT = "good " * 40, "good"


@pytest.mark.parametrize(
    ("make", "run", "message"),
    [
        (
            lambda: classifier(None),
            lambda model: model.predict_text([LONG, SHORT, LONG]),
            "2 of 3 texts are longer than 10 tokens and are cut; set windows='mean' or a larger "
            "sequence_length.",
        ),
        (
            lambda: classifier(None, length=32),
            lambda model: model.predict_text([LONG, SHORT]),
            "1 of 2 texts is longer than 32 tokens and is cut; set windows='mean'.",
        ),
        (
            lambda: classifier(None),
            lambda model: model.predict_text(([LONG, SHORT], [SHORT, SHORT])),
            "1 of 2 pairs is longer than 10 tokens and is cut; set a larger sequence_length.",
        ),
        (
            lambda: classifier(None, length=32),
            lambda model: model.predict_text(([LONG, SHORT], [SHORT, SHORT])),
            "1 of 2 pairs is longer than 32 tokens and is cut: the encoder has no more positions.",
        ),
        (
            lambda: embedder(max_windows=3),
            lambda model: model.encode([LONG, SHORT]),
            "1 of 2 texts is longer than 3 windows of 10 tokens and is cut; set a larger "
            "max_windows.",
        ),
        (
            lambda: embedder(None),
            lambda model: model.predict_text(([LONG, SHORT], [LONG, SHORT])),
            "2 of 4 texts are longer than 10 tokens and are cut; set windows='mean' or a larger "
            "sequence_length.",
        ),
    ],
    ids=["classifier", "all positions", "pairs", "pairs, all positions", "windows", "embedder"],
)
def test_one_warning_of_cut_texts(make, run, message, caplog):
    run(make())
    assert caplog.messages == [message]


def test_no_warning_if_nothing_is_cut(caplog):
    caplog.set_level(logging.WARNING)
    classifier().predict_text([LONG, SHORT])
    classifier(None).predict_text([SHORT, "good " * 8])
    assert not caplog.messages
