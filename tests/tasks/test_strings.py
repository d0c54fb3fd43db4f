"""Texts and names of labels in Keras' methods give the same as prepared ids.

The reference is Keras itself on `preprocessor(texts)` and label ids.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert import InputError
from keras_bert.text.rows import PADDED_LENGTHS
from tests.finetuning import tiny
from tests.marks import others_swept

TEXTS = ["the film was good", "the film was bad", "a book is fine", "the book was poor and bad"] * 4
NAMES = ["good", "bad", "good", "bad"] * 4
IDS = np.array([1, 0, 1, 0] * 4)
WEIGHTS = np.arange(1.0, 17.0, dtype="float32")


class Series:
    """A column as pandas has it: its index does not begin with 0."""

    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, key):
        raise KeyError(key)

    def to_numpy(self):
        return np.array(self.values, object)


COLUMNS = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "objects": lambda values: np.array(values, object),
    "tensor": tf.constant,
    "series": Series,
}


def compiled(model=None, **arguments):
    model = model or tiny.classifier({**tiny.NO_DROPOUT}, dropout=0.0)
    model.compile(keras.optimizers.Adam(1e-2), model.default_loss(), jit_compile=False, **arguments)
    return model


def batches(count=8, weights=False):
    """The reference: token ids and label ids, in the order of the texts."""
    inputs = tiny.preprocessor()(TEXTS)
    parts = (inputs, IDS, WEIGHTS) if weights else (inputs, IDS)
    return tf.data.Dataset.from_tensor_slices(parts).batch(count)


@pytest.mark.parametrize("kind", others_swept(COLUMNS, quick=("list", "series")))
def test_fit_on_columns_equals_fit_on_ids(kind):
    column = COLUMNS[kind]
    ours, reference = compiled(), compiled()
    options = {"epochs": 2, "shuffle": False, "verbose": 0}
    history = ours.fit(column(TEXTS), column(NAMES), batch_size=8, **options).history
    expected = reference.fit(batches(), **options).history
    np.testing.assert_allclose(history["loss"], expected["loss"], rtol=1e-5)
    for a, b in zip(ours.get_weights(), reference.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_sample_weights_and_validation_data():
    options = {"shuffle": False, "verbose": 0}
    found = compiled().fit(
        TEXTS,
        NAMES,
        batch_size=8,
        sample_weight=WEIGHTS,
        validation_data=(TEXTS[:5], NAMES[:5]),
        **options,
    )
    held_out = (tiny.preprocessor()(TEXTS[:5]), IDS[:5])
    expected = compiled().fit(batches(weights=True), validation_data=held_out, **options)
    for name in ("loss", "val_loss"):
        np.testing.assert_allclose(found.history[name], expected.history[name], rtol=1e-5)


def test_class_weights_by_name():
    options = {"batch_size": 8, "shuffle": False, "verbose": 0}
    found = compiled().fit(TEXTS, NAMES, class_weight={"bad": 0.5}, **options)
    expected = compiled().fit(batches(), class_weight={1: 1.0, 0: 0.5}, shuffle=False, verbose=0)
    assert found.history["loss"] == pytest.approx(expected.history["loss"], rel=1e-5)
    ours, reference = compiled(), compiled()
    weights = {"class_weight": {"good": 3.0}}
    expected = reference.train_on_batch(TEXTS, IDS, class_weight={1: 3.0})
    assert ours.train_on_batch(TEXTS, NAMES, **weights) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("ratio", others_swept([0.3, 0.25]))
def test_validation_split_takes_the_last_texts(ratio):
    options = {"shuffle": False, "verbose": 0, "batch_size": 8, "validation_split": ratio}
    found = compiled().fit(TEXTS, NAMES, **options)
    inputs = {name: x.numpy() for name, x in tiny.preprocessor()(TEXTS).items()}
    expected = compiled().fit(inputs, IDS, **options)
    for name in ("loss", "val_loss"):
        np.testing.assert_allclose(found.history[name], expected.history[name], rtol=1e-5)


def test_texts_are_shuffled_anew_in_each_epoch():
    seen = []

    class Spy(kb.SequenceClassifier):
        def train_step(self, data):
            tf.py_function(lambda ids: seen.append(ids.numpy().tolist()), [data[1]], [])
            return super().train_step(data)

    model = Spy(
        tiny.encoder(), labels=[str(i) for i in range(16)], preprocessor=tiny.preprocessor()
    )
    keras.utils.set_random_seed(1)
    compiled(model).fit(TEXTS, np.arange(16), batch_size=16, epochs=2, verbose=0)
    first, second = seen
    assert first != second
    assert sorted(first) == sorted(second) == list(range(16))


def test_the_training_step_is_traced_once():
    calls = []

    class Counted(kb.SequenceClassifier):
        def call(self, inputs, training=None):
            calls.append(training)
            return super().call(inputs, training=training)

    model = compiled(Counted(tiny.encoder(), preprocessor=tiny.preprocessor(), num_labels=2))
    model.fit(TEXTS, IDS, batch_size=8, epochs=2, verbose=0)
    assert calls == [True]


def test_steps_per_epoch_go_on_in_the_next_pass():
    history = compiled().fit(TEXTS, NAMES, batch_size=8, steps_per_epoch=3, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2


def test_evaluate_predict_and_single_batches():
    model = compiled(metrics=["accuracy"])
    inputs = tiny.preprocessor()(TEXTS)
    expected = model.evaluate(inputs, IDS, batch_size=8, verbose=0)
    np.testing.assert_allclose(model.evaluate(TEXTS, NAMES, batch_size=8, verbose=0), expected)
    logits = model.predict(inputs, verbose=0)
    np.testing.assert_allclose(model.predict(TEXTS, batch_size=5, verbose=0), logits, atol=1e-6)
    np.testing.assert_allclose(model.predict_on_batch(TEXTS), logits, atol=1e-6)
    np.testing.assert_allclose(
        model.test_on_batch(TEXTS, NAMES), model.test_on_batch(inputs, IDS), rtol=1e-5
    )
    ours, reference = compiled(), compiled()
    np.testing.assert_allclose(
        ours.train_on_batch(TEXTS, NAMES), reference.train_on_batch(inputs, IDS), rtol=1e-5
    )


def test_datasets_of_texts():
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, NAMES)).batch(8)
    options = {"epochs": 2, "verbose": 0}
    found = compiled().fit(dataset, validation_data=dataset, **options).history
    expected = compiled().fit(batches(), validation_data=batches(), **options).history
    for name in ("loss", "val_loss"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)
    texts = tf.data.Dataset.from_tensor_slices(TEXTS).batch(8)
    model = compiled()
    np.testing.assert_allclose(
        model.predict(texts, verbose=0), model.predict(TEXTS, verbose=0), atol=1e-6
    )


def test_pairs_and_datasets_of_pairs():
    others = TEXTS[::-1]
    model = compiled()
    expected = model.predict(tiny.preprocessor()((TEXTS, others)), verbose=0)
    np.testing.assert_allclose(model.predict((TEXTS, others), verbose=0), expected, atol=1e-6)
    dataset = tf.data.Dataset.from_tensor_slices(((TEXTS, others), IDS)).batch(8)
    assert model.evaluate(dataset, verbose=0) == pytest.approx(
        model.evaluate((TEXTS, others), NAMES, verbose=0), rel=1e-5
    )


def test_lists_of_labels():
    model = tiny.classifier(problem_type="multi_label", labels=["a", "b", "c"])
    names = [["a"], [], ["c", "b"]]
    found = compiled(model).test_on_batch(TEXTS[:3], names)
    rows = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 1]], "float32")
    assert found == pytest.approx(model.test_on_batch(tiny.preprocessor()(TEXTS[:3]), rows))


def test_numbers_are_targets_as_they_are():
    model = tiny.classifier(problem_type="regression", labels=["score"])
    values = np.linspace(0, 1, 16).astype("float32")
    found = compiled(model).evaluate(TEXTS, values.tolist(), verbose=0)
    assert found == pytest.approx(model.evaluate(tiny.preprocessor()(TEXTS), values, verbose=0))


def test_groups_of_an_embedder():
    model = compiled(kb.TextEmbedder(tiny.encoder(), preprocessor=tiny.preprocessor()))
    groups = (TEXTS[:4], TEXTS[4:8], TEXTS[8:12])
    vectors = model.predict(groups, verbose=0)
    assert vectors.shape == (4, 3, 16)
    same = kb.TextEmbedder(model.encoder, preprocessor=model.preprocessor)
    np.testing.assert_allclose(vectors[:, 1], same.encode(TEXTS[4:8]), atol=1e-5)
    np.testing.assert_allclose(same.predict(TEXTS, verbose=0), same.encode(TEXTS), atol=1e-5)
    assert np.isfinite(model.fit(groups, np.arange(4), verbose=0).history["loss"][0])


def test_choices():
    model = compiled(kb.MultipleChoice(tiny.encoder(), preprocessor=tiny.preprocessor()))
    choices = [["good", "bad", "fine"], ["poor", "a film", "the book"]] * 4
    logits = model.predict((TEXTS[:8], choices), batch_size=3, verbose=0)
    expected = model.predict_text((TEXTS[:8], choices))
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(scores, [answer["scores"] for answer in expected], atol=1e-5)
    assert np.isfinite(model.fit((TEXTS[:8], choices), [0, 1] * 4, verbose=0).history["loss"][0])


def test_values_for_each_token_have_one_length():
    """Batches of short and of long texts are joined, and targets can have the same length."""
    model = kb.TokenClassifier(
        tiny.encoder(), labels=["O", "X"], preprocessor=tiny.preprocessor(24)
    )
    texts = ["good", "the film was good " * 4] * 3
    logits = model.predict(texts, batch_size=1, verbose=0)
    assert logits.shape == (6, 24, 2)
    loss = compiled(model).fit(texts, np.zeros((6, 24), "int32"), verbose=0).history["loss"]
    assert np.isfinite(loss[0])


def test_a_language_model_reads_masks():
    model = kb.MaskedLanguageModel(tiny.encoder(), preprocessor=tiny.preprocessor())
    ids = model.inputs_of_texts((["the film was [MASK]"],))["token_ids"]
    assert model.preprocessor.vocabulary.mask_id in np.array(ids)


def test_batches_are_as_long_as_their_longest_text():
    preprocessor = tiny.preprocessor(200)
    for words in (1, 14, 15, 40, 120, 400):
        length = preprocessor(["good", "good " * words])["token_ids"].shape[1]
        needed = min(words + 2, 200)
        assert length >= needed
        assert length == 200 or (length in PADDED_LENGTHS and length < 2 * max(needed, 16))
    assert preprocessor([])["token_ids"].shape == (0, 16)


def test_a_functional_model_takes_strings(tmp_path):
    classifier = tiny.classifier()
    texts = keras.Input(shape=(), dtype="string")
    number = keras.Input(shape=(1,))
    logits = classifier(classifier.preprocessor(texts))
    model = keras.Model([texts, number], keras.layers.Dense(2)(keras.ops.hstack([logits, number])))
    model.compile("adam", classifier.default_loss())
    given = (tf.constant(TEXTS), np.ones((16, 1), "float32"))
    dataset = tf.data.Dataset.from_tensor_slices((given, IDS)).batch(8)
    model.fit(dataset, verbose=0)
    expected = model.predict(given, verbose=0)
    model.save(tmp_path / "m.keras")
    again = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_allclose(again.predict(given, verbose=0), expected, atol=1e-6)
    model.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_allclose(served.serve(list(given)), expected, atol=1e-5)


def test_pairs_in_a_functional_model():
    classifier = tiny.classifier()
    texts = [keras.Input(shape=(), dtype="string") for _ in range(2)]
    fixed = classifier.preprocessor.with_length(12, padding="max_length")
    packed = fixed(tuple(texts), return_offsets=True)
    assert {name: x.shape for name, x in packed.items()} == dict.fromkeys(
        ("token_ids", "segment_ids", "padding_mask", "starts", "ends"), (None, 12)
    )
    model = keras.Model(texts, packed["token_ids"])
    given = (tf.constant(TEXTS), tf.constant(TEXTS[::-1]))
    assert np.array_equal(model.predict(given, verbose=0), fixed(given)["token_ids"])


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            lambda m: m.fit(TEXTS, ["god"] * 16),
            "'god' is not a label of the model.*good.*bad, good",
        ),
        (lambda m: m.fit(TEXTS, [*NAMES[:15], None]), "target None is not a label"),
        (lambda m: m.fit(TEXTS, [["good"]] * 16), r"target \['good'\] is a list, but must be one"),
        (lambda m: m.predict("good"), "x is one text, 'good', but must be a list"),
        (lambda m: m.fit([*TEXTS[:15], None], NAMES), "Text 15 is None, but must be a string"),
        (lambda m: m.predict([("a", "b")]), r"shape \[N\], not \[N, 2\]; for pairs, give a tuple"),
        (lambda m: m.fit(TEXTS, [1, 2] * 8), "The target 2 is not the id.*ids 0 to 1"),
        (lambda m: m.fit(TEXTS, [1, np.nan] * 8), "The target nan is not the id"),
        (lambda m: m.fit(TEXTS, NAMES, class_weight={"god": 2.0}), "'god' is not a label"),
        (lambda m: m.fit((TEXTS, TEXTS[:3]), NAMES), "have 16 and 3 texts"),
        (lambda m: m.fit(TEXTS, sample_weight=WEIGHTS), "no targets y"),
        (lambda m: m.fit(TEXTS, NAMES[:3]), "16 texts, but 3 targets"),
        (lambda m: m.fit([], []), "x has no texts"),
        (
            lambda m: m.predict(tf.data.Dataset.from_tensor_slices(TEXTS)),
            "single texts, but needs batches",
        ),
    ],
)
def test_bad_input(run, message):
    with pytest.raises(InputError, match=message):
        run(compiled())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (2, "labels is 2, but must be a list of names"),
        ("ab", "labels is 'ab', but must be a list of names"),
        ([1, 0], r"labels has 1, but names must be strings: \['1', ...\]"),
    ],
)
def test_labels_that_are_not_names(labels, message):
    with pytest.raises(InputError, match=message):
        tiny.classifier(labels=labels)


def test_an_unused_pooler_is_no_reason_for_a_warning(recwarn):
    model = compiled(tiny.classifier(pooling="mean"))
    model.fit(TEXTS, NAMES, verbose=0)
    assert model.encoder.pooler is not None
    assert not [warning for warning in recwarn if "Gradients" in str(warning.message)]


def test_an_unknown_label_in_a_dataset():
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, ["god"] * 16)).batch(8)
    with pytest.raises(tf.errors.InvalidArgumentError, match="not a label of the model"):
        compiled().fit(dataset, verbose=0)


def test_wrong_targets_of_a_multi_label_model():
    model = tiny.classifier(problem_type="multi_label", labels=["a", "b"])
    model.compile("adam", model.default_loss())
    with pytest.raises(InputError, match=r"The target 'a' must be a list of labels: \['a'\]"):
        model.fit(TEXTS, ["a"] * 16)
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, ["a"] * 16)).batch(8)
    with pytest.raises(InputError, match="must be rows of 0 and 1"):
        model.fit(dataset)


def test_a_model_without_a_preprocessor():
    with pytest.raises(InputError, match="no preprocessor, so it cannot take texts"):
        compiled(tiny.classifier(preprocessor=None)).predict(TEXTS)


def test_lists_of_choices_of_different_lengths():
    model = kb.MultipleChoice(tiny.encoder(), preprocessor=tiny.preprocessor())
    with pytest.raises(InputError, match="2 to 3 choices"):
        model.predict((["a", "b"], [["x", "y"], ["x", "y", "z"]]))


def test_replacing_the_preprocessor_leaves_no_trace():
    model = tiny.classifier()
    model.preprocessor = model.preprocessor.with_length(8)
    assert not any(isinstance(layer, kb.Preprocessor) for layer in model._flatten_layers())
    assert len(model.weights) == len(tiny.classifier().weights)
