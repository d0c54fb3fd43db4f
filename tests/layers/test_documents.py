"""Several documents in a row give what each gives alone."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert.families import FAMILIES
from tests.layers.test_encoder import SMALL

LENGTHS = ((6, 3, 2, 4), (9, 5))  # of the documents of each row, of 16 positions
LENGTH = 16
WITHOUT_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
KINDS = {
    **{name: family.TRAITS for name, family in FAMILIES.items()},
    "deberta-v2 with a convolution": FAMILIES["deberta-v2"].TRAITS
    | {"convolution_size": 3, "convolution_activation": "gelu"},
}


def make_config(kind):
    values = {**SMALL, **KINDS[kind], **WITHOUT_DROPOUT, "num_layers": 2}
    if values.get("attention_window"):
        values |= {"attention_window": 3, "global_interval": 2}
    if values.get("relative_positions"):
        values |= {"relative_positions": 8, "position_buckets": 4}
    return kb.EncoderConfig(**values)


@pytest.fixture(scope="module", params=KINDS)
def models(request):
    """A masked language model and a detector on one encoder, with large random weights."""
    config = make_config(request.param)
    encoder = kb.Encoder(config)
    models = (
        kb.MaskedLanguageModel(encoder, enhanced=config.positions_in_head),
        kb.ReplacedTokenDetector(encoder, context=config.positions_in_head),
    )
    rng = np.random.default_rng(0)
    for variable in {id(v): v for model in models for v in model.weights}.values():
        variable.assign(rng.normal(0.0, 0.3, variable.shape))
    return models


def packed_rows():
    """Inputs, and (row, from, to) of each document; every token of a row is another."""
    rng = np.random.default_rng(1)
    shape = (len(LENGTHS), LENGTH)
    documents, places = np.zeros(shape, "int32"), []
    for row, lengths in enumerate(LENGTHS):
        ends = np.cumsum(lengths)
        for number, (end, length) in enumerate(zip(ends, lengths, strict=True), start=1):
            documents[row, end - length : end] = number
            places.append((row, end - length, end))
    ids = rng.permuted(np.tile(np.arange(50), (len(LENGTHS), 1)), axis=1)[:, :LENGTH]
    return {
        "token_ids": ids.astype("int32"),
        "segment_ids": np.zeros(shape, "int32"),
        "padding_mask": np.minimum(documents, 1),
        "document_ids": documents,
    }, places


def test_each_document_gives_what_it_gives_alone(models):
    inputs, places = packed_rows()
    ids, mask = np.zeros((2, len(places), LENGTH), "int32")  # a row for each document
    for n, (row, start, end) in enumerate(places):
        ids[n, : end - start] = inputs["token_ids"][row, start:end]
        mask[n, : end - start] = 1
    for model in models:
        together = model(inputs)
        alone = model({"token_ids": ids, "padding_mask": mask})
        for n, (row, start, end) in enumerate(places):
            expected = alone[n, : end - start]
            difference = np.abs(together[row, start:end] - expected).max()
            assert difference <= 1e-6 * max(np.abs(expected).max(), 1), (model.name, row, start)


def test_no_gradient_goes_from_one_document_to_another(models):
    inputs, places = packed_rows()
    language_model, detector = models
    table = detector.encoder.embeddings.token_embedding.value
    for row, start, end in places[1:3]:
        with tf.GradientTape() as tape:
            encoded = language_model.encode(inputs)
            outputs = (encoded.get("decoded_output", encoded["sequence_output"]), detector(inputs))
            loss = sum(tf.reduce_sum(output[row, start:end] ** 3) for output in outputs)
        gradient = np.abs(tape.gradient(loss, table)).max(axis=1)
        others = np.delete(inputs["token_ids"][row], np.arange(start, end))
        assert not gradient[others].any()
        assert (gradient[inputs["token_ids"][row, start:end]] > 1e-6).all()


def test_without_documents_the_graph_has_nothing_of_them():
    """Not an operator more than the encoder had before it knew of documents."""
    encoder = kb.Encoder(make_config("bert"))
    inputs, _ = packed_rows()

    def operators(names):
        given = {name: tf.constant(inputs[name]) for name in names}
        graph = tf.function(encoder).get_concrete_function(given).graph
        return [operation.type for operation in graph.get_operations()]

    usual = ("token_ids", "segment_ids", "padding_mask")
    assert not {"Equal", "LogicalAnd", "Greater"} & set(operators(usual))
    assert {"Equal", "LogicalAnd", "Greater"} <= set(operators((*usual, "document_ids")))


def test_positions_that_are_given_remain():
    encoder = kb.Encoder(make_config("bert"))
    inputs, _ = packed_rows()
    restarted = encoder(inputs)["sequence_output"]
    given = np.tile(np.arange(LENGTH, dtype="int32"), (len(LENGTHS), 1))
    other = encoder(inputs | {"position_ids": given})["sequence_output"]
    assert np.abs(keras.ops.convert_to_numpy(other - restarted)[:, 12]).max() > 1e-4
