"""TFLite files that take texts give Keras' answers."""

import numpy as np
import pytest

import keras_bert as kb
from keras_bert import InputError, export
from keras_bert.export._tflite import runtime
from keras_bert.export._tflite.text_signatures import SIGNATURES, TOP_K
from keras_bert.export.signatures import TASK_OUTPUTS
from keras_bert.families import FAMILIES
from keras_bert.tasks.fill_mask import fill_mask
from keras_bert.text.tokenizer import to_strings
from tests.marks import others_swept
from tests.text.sentencepiece_reference import MINIMAL, MODEL
from tests.text.test_loading import byte_pair

from .conftest import HARD_TEXTS, TOKENS, make_model
from .test_formats import SMALL

TEXTS = [text.encode("utf-8", "replace").decode() for text in HARD_TEXTS]
SOME = ["The film was good!", "", "bad é E\u0301 ﬁ 中 x.", "x" * 300]


def written(model, folder, **options):
    export.tflite(model, folder / "a.tflite", text=True, **options)
    _, run = runtime.prepare(str(folder / "a.tflite"), 1)()

    def answer(signature, columns):
        return run(signature, {name: to_strings(texts).numpy() for name, texts in columns.items()})

    return answer


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)


def test_the_table_knows_every_task():
    assert set(SIGNATURES) == set(TASK_OUTPUTS)


def test_classifier(classifier, tmp_path):
    run = written(classifier, tmp_path)
    found = run("serving_default", {"text": TEXTS})
    assert set(found) == {"logits", "scores", "labels", "label", "score"}
    close(found["logits"], classifier(classifier.preprocessor(TEXTS)))
    predictions = classifier.predict_text(TEXTS)
    assert [label.decode() for label in found["label"]] == [p["label"] for p in predictions]
    assert {tuple(row) for row in found["labels"]} == {(b"no", b"yes", "mäßig".encode())}
    pairs = (TEXTS, TEXTS[::-1])
    found = run("text_pair", dict(zip(("text", "text_pair"), pairs, strict=True)))
    close(found["logits"], classifier(classifier.preprocessor(pairs)))


def test_one_copy_of_weights_and_fixed_shapes(preprocessor, tmp_path):
    model = make_model(vocabulary_size=20_000, preprocessor=preprocessor)
    run = written(model, tmp_path, quantize="float16", sequence_length=12, batch_size=2)
    weights = 4 * sum(int(np.prod(weight.shape)) for weight in model.weights)
    assert (tmp_path / "a.tflite").stat().st_size < 0.55 * weights + 700_000  # tables for texts
    found = run("serving_default", {"text": SOME[:2]})["logits"]
    expected = model(preprocessor.with_length(12)(SOME[:2]))
    np.testing.assert_allclose(found, expected, rtol=0, atol=5e-3)


def test_tagger_tells_where_tokens_stand(preprocessor, tmp_path):
    arguments = {"labels": ["O", "B-X", "I-X"], "crf": True}
    model = make_model("token_classifier", arguments, preprocessor)
    found = written(model, tmp_path)("serving_default", {"text": TEXTS})
    inputs = preprocessor(TEXTS, return_offsets=True)
    ids = {name: inputs[name] for name in ("token_ids", "segment_ids", "padding_mask")}
    logits = model(ids, training=False)
    close(found["logits"], logits)
    vocabulary = preprocessor.vocabulary
    frame = [vocabulary.pad_id, vocabulary.cls_id, vocabulary.separator_id]
    is_text = ~np.isin(inputs["token_ids"], frame)
    for name in ("starts", "ends"):
        np.testing.assert_array_equal(found[name], np.where(is_text, inputs[name], -1))
    assert set(np.unique(found["tags"])) <= {-1, 0, 1, 2}
    model.preprocessor = preprocessor.with_length(16)  # not that of the file
    (row,) = export.verify(model, [tmp_path / "a.tflite"], SOME, seconds=0).rows
    assert (row.difference, row.agreement) == (np.inf, 0)


def test_span_tells_where_tokens_of_the_context_stand(preprocessor, tmp_path):
    model = make_model("span_classifier", preprocessor=preprocessor)
    questions, contexts = ["was?", "the the"], ["é bad film. 中", "good " * 50]
    run = written(model, tmp_path)
    found = run("question_answer", {"question": questions, "context": contexts})
    inputs = preprocessor((questions, contexts), return_offsets=True)
    ids = {name: inputs[name] for name in ("token_ids", "segment_ids", "padding_mask")}
    for name, expected in model(ids, training=False).items():
        close(found[name], expected)
    in_context = (np.asarray(ids["segment_ids"]) == 1) & (
        np.asarray(ids["token_ids"]) != preprocessor.vocabulary.separator_id
    )
    for name in ("starts", "ends"):
        np.testing.assert_array_equal(found[name], np.where(in_context, inputs[name], -1))


@pytest.mark.parametrize("task", others_swept(["masked_lm", "pretraining"]))
def test_fill_mask(task, preprocessor, tmp_path):
    model = make_model(task, preprocessor=preprocessor)
    columns = [["The ", "", "film", "x " * 40], [" was good!", "", " bad" * 50, "."]]
    names = dict(zip(("before", "after"), columns, strict=True))
    found = written(model, tmp_path)("fill_mask", names)
    texts = [f"{before}[MASK]{after}" for before, after in zip(*columns, strict=True)]
    for row, (answers,) in enumerate(fill_mask(model, texts[:3], TOP_K)):
        assert [token.decode() for token in found["tokens"][row]] == [a["token"] for a in answers]
        close(found["scores"][row], [a["score"] for a in answers])
    assert set(found["tokens"][3]) == {b""}  # cut off
    assert set(found["scores"][3]) == {-1}


@pytest.mark.slow
@pytest.mark.parametrize(
    "task",
    others_swept(["encoder", "embedder", "multiple_choice", "next_sentence", "replaced_token"]),
)
def test_other_tasks(task, preprocessor, tmp_path):
    model = make_model(task, preprocessor=preprocessor)
    model.preprocessor = preprocessor  # an encoder's, too
    run, answers = written(model, tmp_path), TASK_OUTPUTS[task]
    for signature in SIGNATURES[task]:
        found = run(signature.name, dict.fromkeys(signature.inputs, SOME))
        texts = SOME if len(signature.inputs) == 1 else (SOME, SOME)
        for name, expected in answers.outputs(model, preprocessor(texts)).items():
            close(found[name], expected)


# Families


def tokenizer_of(family):
    """A small one of the kind that the family has."""
    if family in ("bert", "distilbert", "electra"):
        return kb.WordPiece(kb.Vocabulary(TOKENS))
    if family in ("roberta", "deberta"):
        return byte_pair()
    return kb.SentencePiece(MODEL, special_tokens=MINIMAL)


@pytest.mark.parametrize(
    "family",
    others_swept(["albert", "roberta", "distilbert", "electra", "deberta", "deberta-v2"]),
)
def test_families(family, tmp_path):
    tokenizer = tokenizer_of(family)
    traits = FAMILIES[family].TRAITS | SMALL | {"vocabulary_size": len(tokenizer.vocabulary)}
    config = kb.EncoderConfig(**traits)
    options = {"num_segments": config.num_segments}
    preprocessor = kb.Preprocessor(tokenizer, 24, padding="max_length", **options)
    model = make_model("classifier", preprocessor=preprocessor, **traits)
    if tokenizer.kind == "byte_pair":
        with pytest.raises(InputError, match="BytePair tokenizer has no operators in TFLite"):
            written(model, tmp_path)
        return
    run = written(model, tmp_path)
    texts = [*TEXTS, "the licence token, and the Work 12,5"]
    found = run("serving_default", {"text": texts})["logits"]
    inputs = preprocessor(texts)
    if config.num_segments <= 1:
        del inputs["segment_ids"]
    close(found, model(inputs))


@pytest.mark.parametrize(
    ("task", "tokenizer", "options", "message"),
    [
        ("classifier", None, {}, "has no preprocessor"),
        ("classifier", "bert", {"quantize": "int8", "representative": ["a"]}, "to 'int8'"),
        ("classifier", "bert", {"metadata": True}, "leave out `text` or `metadata`"),
        ("classifier", "bert", {"sequence_length": 2}, "leaves no room"),
        ("token_classifier", "albert", {}, "does not return the positions"),
    ],
)
def test_what_is_refused(task, tokenizer, options, message, tmp_path):
    preprocessor = tokenizer and kb.Preprocessor(tokenizer_of(tokenizer), 24)
    model = make_model(task, preprocessor=preprocessor, vocabulary_size=800)
    with pytest.raises(InputError, match=message):
        written(model, tmp_path, **options)
    assert not list(tmp_path.iterdir())
