import json

import keras
import numpy as np
import pytest

import keras_bert as kb
from tests.layers.test_encoder import padded_batch, random_encoder
from tests.marks import others_swept

TASKS = {
    "single label": lambda e: kb.SequenceClassifier(e, labels=["no", "maybe", "yes"]),
    "multi label, mean": lambda e: kb.SequenceClassifier(
        e, 4, problem_type="multi_label", pooling="mean"
    ),
    "regression, attention": lambda e: kb.SequenceClassifier(
        e, 1, problem_type="regression", pooling="attention"
    ),
    "masked lm": kb.MaskedLanguageModel,
    "pretraining": kb.PretrainingModel,
    "next sentence": kb.NextSentencePredictor,
    "tokens": lambda e: kb.TokenClassifier(e, labels=["O", "B", "I"]),
    "span_classifier": kb.SpanClassifier,
    "span, dropout": lambda e: kb.SpanClassifier(e, dropout=0.3),
    "replaced token": kb.ReplacedTokenDetector,
}


def leaves(outputs):
    return [np.asarray(value) for value in keras.tree.flatten(outputs)]


@pytest.mark.parametrize("name", ["multi label, mean", "regression, attention", "span, dropout"])
def test_keras_file_holds_arguments(name, tmp_path):
    """`keras_matrix` checks the tasks with their default arguments."""
    model, inputs = TASKS[name](random_encoder()), padded_batch()
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    for one, two in zip(leaves(model(inputs)), leaves(loaded(inputs)), strict=True):
        assert np.array_equal(one, two)
    assert json.dumps(loaded.get_config()) == json.dumps(model.get_config())


@pytest.mark.parametrize("make", TASKS.values(), ids=TASKS)
def test_native_round_trip_whatever_the_models_are_called(make, tmp_path):
    model, inputs = make(random_encoder()), padded_batch()
    kb.save(model, tmp_path / "model")
    loaded = kb.load(tmp_path / "model", name="another")
    for one, two in zip(leaves(model(inputs)), leaves(loaded(inputs)), strict=True):
        assert np.array_equal(one, two)


@pytest.mark.parametrize("input_dropout", [False, True])
def test_dropout_before_the_heads_dense_layer_is_of_the_family(input_dropout):
    """RoBERTa and ELECTRA drop before it, too; DistilBERT and DeBERTa do not."""
    encoder = random_encoder(
        classifier_activation="tanh",
        classifier_dropout=0.5,
        classifier_input_dropout=input_dropout,
    )
    head = kb.SequenceClassifier(encoder, encoder.config.hidden_size).head
    head.logits.set_weights([np.eye(24), np.zeros(24)])
    x = np.random.default_rng(0).normal(size=(40, 24)).astype("float32")
    hidden, dropped = np.asarray(head(x)), np.asarray(head(x, training=True))
    assert np.mean(dropped == 0) == pytest.approx(0.5, abs=0.1)
    kept = dropped != 0
    assert np.allclose(dropped[kept], 2 * hidden[kept], atol=1e-5) != input_dropout


@pytest.mark.parametrize("jit_compile", others_swept([False, True]))
def test_fit_learns(jit_compile):
    keras.utils.set_random_seed(0)  # of the order of the examples, too
    encoder = kb.Encoder(random_encoder().config.replace(hidden_dropout=0.0))
    model = kb.SequenceClassifier(encoder, 2)
    ids = np.random.default_rng(0).integers(5, 50, (64, 8)).astype("int32")
    labels = (ids[:, 3] > 27).astype("int32")
    model.compile(
        keras.optimizers.Adam(3e-3),
        model.default_loss(),
        metrics=["accuracy"],
        jit_compile=jit_compile,
    )
    model.fit({"token_ids": ids}, labels, epochs=30, batch_size=16, verbose=0)
    assert model.evaluate({"token_ids": ids}, labels, verbose=0)[1] > 0.95


def test_poolings_by_hand():
    encoder, inputs = random_encoder(), padded_batch()
    x = np.asarray(encoder(inputs)["sequence_output"], "float64")
    mask = inputs["padding_mask"][..., None]
    for pooling in ("first", "mean", "attention"):
        model = kb.SequenceClassifier(encoder, 3, pooling=pooling, dropout=0.0)
        if pooling == "first":
            pooled = x[:, 0]
        else:
            weight = mask.astype("float64")
            if pooling == "attention":
                weight = weight * np.exp(x @ np.asarray(model.text_pooling.score.kernel))
            pooled = (x * weight / weight.sum(1, keepdims=True)).sum(1)
        expected = pooled @ np.asarray(model.head.logits.kernel)
        np.testing.assert_allclose(model(inputs), expected, atol=1e-5)


def test_masked_positions_pick_rows_of_the_full_logits():
    model, inputs = kb.MaskedLanguageModel(random_encoder()), padded_batch()
    full = np.asarray(model(inputs))
    assert full.shape == (3, 9, 50)
    positions = np.array([[1, 8], [0, 4], [0, 0]], "int32")
    picked = model(inputs | {"masked_positions": positions})
    expected = np.take_along_axis(full, positions[..., None], 1)
    np.testing.assert_allclose(picked, expected, atol=1e-5)


def test_masked_lm_head_is_the_papers():
    from tests.layers.paper import ACTIVATIONS

    model, inputs = kb.MaskedLanguageModel(random_encoder()), padded_batch()
    for variable in model.head.weights:
        variable.assign(np.random.default_rng(3).normal(0, 0.5, variable.shape))
    x = np.asarray(model.encoder(inputs)["sequence_output"], "float64")
    dense, norm = model.head.transform, model.head.normalization
    x = ACTIVATIONS["gelu"](x @ np.asarray(dense.kernel) + np.asarray(dense.bias))
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    x = x * np.asarray(norm.gamma) + np.asarray(norm.beta)
    logits = x @ np.asarray(model.encoder.embeddings.token_embedding).T
    np.testing.assert_allclose(model(inputs), logits + np.asarray(model.head.bias), atol=3e-5)


def test_multiple_choice_scores_each_choice_by_itself(tmp_path):
    model, inputs = kb.MultipleChoice(random_encoder()), padded_batch()
    logits = model({name: value[None] for name, value in inputs.items()})  # [1, 3, T]
    assert logits.shape == (1, 3)
    for choice in range(3):
        alone = {name: value[None, choice : choice + 1] for name, value in inputs.items()}
        np.testing.assert_allclose(logits[0, choice], model(alone)[0, 0], atol=1e-6)
    kb.save(model, tmp_path / "model")
    loaded = kb.load(tmp_path / "model")
    assert np.array_equal(logits, loaded({name: value[None] for name, value in inputs.items()}))


def test_choices_need_three_dimensions():
    with pytest.raises(kb.InputError, match=r"have the shape \[3, 9\], but must be \[B, C, T\]"):
        kb.MultipleChoice(random_encoder())(padded_batch())


def test_a_layer_in_place_of_the_pooler():
    """RoBERTa's head: logits of tanh(W h + b), h being the first token."""
    encoder = random_encoder(classifier_activation="tanh")
    inputs = padded_batch()
    model = kb.SequenceClassifier(encoder, 3)
    assert model.pooling == "first"
    first = np.asarray(encoder(inputs)["sequence_output"], "float64")[:, 0]
    hidden = np.tanh(first @ np.asarray(model.head.hidden.kernel))
    expected = hidden @ np.asarray(model.head.logits.kernel)
    np.testing.assert_allclose(model(inputs), expected, atol=1e-5)
    assert kb.SequenceClassifier(encoder, 3, pooling="pooled").head.hidden is None
    assert kb.TokenClassifier(encoder, 3).head.hidden is None
    assert kb.MultipleChoice(encoder).pooling == "pooled"
    without = random_encoder(classifier_activation="tanh", pooler=False)
    assert kb.MultipleChoice(without).head.hidden is not None


def test_replaced_tokens_by_hand():
    from tests.layers.paper import ACTIVATIONS

    model, inputs = kb.ReplacedTokenDetector(random_encoder()), padded_batch()
    x = np.asarray(model.encoder(inputs)["sequence_output"], "float64")
    hidden = ACTIVATIONS["gelu"](x @ np.asarray(model.head.hidden.kernel))
    expected = (hidden @ np.asarray(model.head.logits.kernel))[..., 0]
    np.testing.assert_allclose(model(inputs), expected, atol=1e-5)


LETTERS = kb.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"aenorthx"])


@pytest.mark.parametrize("problem_type", ["single_label", "multi_label", "regression"])
def test_predict_text(problem_type):
    preprocessor = kb.Preprocessor(kb.WordPiece(LETTERS), 12)
    model = kb.SequenceClassifier(
        random_encoder(), 3, problem_type=problem_type, preprocessor=preprocessor
    )
    texts = ["o n e", "a n o t h e r", "", "x " * 30]
    logits = np.asarray(model(preprocessor(texts)), "float64")
    assert model.predict_text([]) == []
    for row, prediction in zip(logits, model.predict_text(texts), strict=True):
        if problem_type == "single_label":
            probabilities = np.exp(row) / np.exp(row).sum()
            assert prediction["label"] == str(row.argmax())
            assert prediction["score"] == pytest.approx(probabilities.max(), abs=1e-5)
        elif problem_type == "multi_label":
            assert prediction["labels"] == [str(i) for i in np.flatnonzero(row >= 0)]
            assert list(prediction["scores"]) == ["0", "1", "2"]
        else:
            assert prediction["score"] == pytest.approx(row, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "names of the labels are missing"),
        ({"num_labels": 0}, "num_labels is 0"),
        ({"num_labels": 3, "labels": ["a", "b"]}, "num_labels is 3, but labels has 2 names"),
        ({"labels": ["a", "\ud800"]}, r"The label '\\ud800' has a lone surrogate"),
        ({"labels": ["a", "a"]}, "different names"),
        ({"num_labels": 2, "problem_type": "both"}, "no problem_type 'both'"),
        ({"num_labels": 2, "pooling": "men"}, "no pooling 'men'. Did you mean 'mean'"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(kb.InputError, match=message):
        kb.SequenceClassifier(random_encoder(), **arguments)


@pytest.mark.parametrize("task", [kb.PretrainingModel, kb.NextSentencePredictor])
def test_tasks_that_need_a_pooler_say_so(task):
    with pytest.raises(kb.InputError, match=f"A {task.__name__} needs an encoder with a pooler"):
        task(random_encoder(pooler=False))


def test_texts_need_a_preprocessor():
    with pytest.raises(kb.InputError, match="has no preprocessor"):
        kb.SequenceClassifier(random_encoder(), 2).predict_text(["a"])
