"""TFLite files that take texts give Keras' answers."""

import unicodedata

import numpy as np
import pytest
import tensorflow as tf

import keras_bert as kb
from keras_bert import InputError, export
from keras_bert.export._tflite import runtime
from keras_bert.export._tflite.byte_pair import PhoneBytePair
from keras_bert.export._tflite.text_signatures import SIGNATURES, TOP_K, PhoneTokenizer
from keras_bert.export.signatures import TASK_OUTPUTS
from keras_bert.families import FAMILIES
from keras_bert.layers.configured import INPUTS
from keras_bert.tasks.fill_mask import fill_mask
from keras_bert.text.byte_pair.training import learn_byte_pair
from keras_bert.text.tokenizer import to_strings
from tests.marks import others_swept
from tests.text.sentencepiece_reference import train
from tests.text.test_loading import BERT, ROBERTA, byte_pair

from .conftest import HARD_TEXTS, TOKENS, make_model
from .test_formats import SMALL
from .tokenizers import lines, real_tokenizer

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


@pytest.mark.parametrize(
    "options",
    [{"added_tokens": [kb.AddedToken("  ", normalized=True)]}, {"add_prefix_space": True}],
    ids=["added", "prefix"],
)
def test_byte_pairs_and_where_they_stand(options, tmp_path):
    texts = [*TEXTS, " it's  we'll\n\n", "naïve 中文 12345 it's the film", "a" * 60]
    (tmp_path / "texts.txt").write_text("\n".join(texts), "utf-8")
    learned = learn_byte_pair([tmp_path / "texts.txt"], 340)
    vocabulary = learned.vocabulary
    vocabulary = kb.Vocabulary([*vocabulary.tokens, "  "], **vocabulary.special_tokens)
    tokenizer = kb.BytePair(vocabulary, learned.merges, **options)
    preprocessor = kb.Preprocessor(tokenizer, 64, padding="max_length")
    arguments = {"labels": ["O", "B-X"]}
    model = make_model("token_classifier", arguments, preprocessor, vocabulary_size=341)
    run = written(model, tmp_path)
    for part in (texts, [""], ["", ""]):
        found = run("serving_default", {"text": part})
        inputs = preprocessor(part, return_offsets=True)
        close(found["logits"], model({name: inputs[name] for name in INPUTS}))
        frame = [vocabulary.pad_id, vocabulary.cls_id, vocabulary.separator_id]
        is_text = ~np.isin(inputs["token_ids"], frame)
        for name in ("starts", "ends"):
            np.testing.assert_array_equal(found[name], np.where(is_text, inputs[name], -1))


@pytest.mark.private_data
@pytest.mark.slow
@pytest.mark.parametrize("add_prefix_space", [False, True])
def test_hard_lines_have_the_byte_pairs_of_keras(add_prefix_space, shared_data):
    real = real_tokenizer(shared_data, "roberta-base")
    tokenizer = kb.BytePair(real.vocabulary, real.merges, add_prefix_space=add_prefix_space)
    phone, (texts, _) = PhoneBytePair(tokenizer), lines(shared_data)
    for start in range(0, len(texts), 500):
        part = to_strings(texts[start : start + 500])
        expected = tokenizer.tokenize_with_offsets(part)
        for found, of_keras in zip(phone.tokenize_with_offsets(part), expected, strict=True):
            assert found.to_list() == of_keras.to_list()


@pytest.mark.parametrize(
    "merges",
    [[], [("t", "h"), ("t", "h"), ("th", "e"), ("Ġ", "the"), ("<", "s"), ("<s", ">"), ("a", "b")]],
    ids=["none", "some"],
)
def test_bytes_without_a_token_and_odd_merges(merges):
    """One merge is repeated, one makes a special token, and one begins with a special token."""
    special = ROBERTA | {"cls": "a"}
    tokens = [*special.values(), *"bcteh<s>", "th", "the", "Ġthe", "<s", "<s>", "ab"]
    tokens += ["Ġ"] * bool(merges)
    tokenizer = kb.BytePair(kb.Vocabulary(tokens, **special), merges)
    texts = tf.constant(["the <s> ab xy the Ünknown the", "", "xyz", " the b  "])
    found = PhoneBytePair(tokenizer).tokenize_with_offsets(texts)
    for values, expected in zip(found, tokenizer.tokenize_with_offsets(texts), strict=True):
        assert values.to_list() == expected.to_list()


@pytest.mark.parametrize("takes_space", [True, False])
@pytest.mark.parametrize("add_prefix_space", [True, False])
def test_white_space_before_a_mask(takes_space, add_prefix_space):
    options = {"mask_takes_space": takes_space, "add_prefix_space": add_prefix_space}
    tokenizer = byte_pair(**options)
    texts = ["the\u00a0", "a\u3000 ", "a\x85", " \u2028", "", " ", "the", "é\t\n", "a b"]
    found = PhoneBytePair(tokenizer).tokenize(tf.constant(texts), before_mask=True)
    masked = [f"{text}<mask>" for text in texts]
    expected = tokenizer.tokenize(masked, allow_special_tokens=True)[:, :-1]
    assert found.to_list() == expected.to_list()


@pytest.mark.parametrize(
    ("token", "options", "reason"),
    [
        (kb.AddedToken("<e>", lstrip=True), {}, "'<e>' has single_word, lstrip or rstrip"),
        (kb.AddedToken("<e>"), {"add_prefix_space": True}, "added tokens and add_prefix_space"),
        (kb.AddedToken("<e> "), {}, "'<e> ' ends in white space and is not normalized"),
    ],
)
def test_added_tokens_that_are_refused(token, options, reason):
    plain = byte_pair()
    vocabulary = kb.Vocabulary([*plain.vocabulary.tokens, token.content], **ROBERTA)
    tokenizer = kb.BytePair(vocabulary, plain.merges, added_tokens=[token], **options)
    with pytest.raises(InputError, match=f"cannot take texts for this model.*{reason}"):
        PhoneTokenizer(tokenizer)


ADDED = [
    kb.AddedToken("|||PHONE|||", normalized=True),
    kb.AddedToken("|||P", normalized=True),
    kb.AddedToken("<|end|>"),
    kb.AddedToken("  ", normalized=True),
    kb.AddedToken("    ", normalized=True),
    kb.AddedToken("e\u0301\u00df", normalized=True),
    kb.AddedToken("  <|", special=True),
    kb.AddedToken("Ġthe"),
]
PARTS = ["|||", "PHONE", "P", "<|end|>", "<|", " ", "  ", "é", "ß", "e\u0301", "the", "Ġthe", "x"]


@pytest.mark.parametrize("normalization", ["", "nfc"])
def test_added_tokens_among_byte_pairs(normalization):
    """Texts of random parts have the tokens and positions that they have in Keras."""
    plain = byte_pair()
    tokens = list(dict.fromkeys([*plain.vocabulary.tokens, *(x.content for x in ADDED)]))
    vocabulary = kb.Vocabulary(tokens, **ROBERTA)
    tokenizer = kb.BytePair(
        vocabulary, plain.merges, added_tokens=ADDED, normalization=normalization
    )
    generator = np.random.default_rng(0)
    texts = ["".join(generator.choice(PARTS, generator.integers(0, 14))) for _ in range(400)]
    if normalization:
        texts = [unicodedata.normalize("NFC", text) for text in texts]
    phone = PhoneBytePair(tokenizer)
    found = phone.tokenize_with_offsets(tf.constant(texts))
    for values, expected in zip(found, tokenizer.tokenize_with_offsets(texts), strict=True):
        assert values.to_list() == expected.to_list()
    assert set(range(len(plain.vocabulary), len(tokens))) <= {*found[0].flat_values.numpy()}


def test_composed_characters_are_the_apps_task(tmp_path, caplog):
    preprocessor = kb.Preprocessor(byte_pair(normalization="nfc"), 24)
    model = make_model(preprocessor=preprocessor, vocabulary_size=len(preprocessor.vocabulary))
    found = written(model, tmp_path)("serving_default", {"text": ["the \u00e9"]})
    close(found["logits"], model(preprocessor(["the e\u0301"])))
    assert caplog.text.count("does not compose characters (NFC)") == 1


@pytest.mark.parametrize(
    ("task", "tokenizer"),
    others_swept(
        [
            ("masked_lm", "bert"),
            ("masked_lm", "roberta"),
            ("masked_lm", "albert"),
            ("pretraining", "bert"),
        ],
        quick=3,
    ),
)
def test_fill_mask(task, tokenizer, tmp_path):
    preprocessor = kb.Preprocessor(tokenizer_of(tokenizer), 24, padding="max_length")
    size = len(preprocessor.vocabulary)
    model = make_model(task, preprocessor=preprocessor, vocabulary_size=size)
    columns = [
        ["The ", "", "film", " the\n  ", "x " * 40],
        [" was good!", "", " bad" * 50, "the", "."],
    ]
    names = dict(zip(("before", "after"), columns, strict=True))
    found = written(model, tmp_path)("fill_mask", names)
    mask = preprocessor.vocabulary.mask
    texts = [f"{before}{mask}{after}" for before, after in zip(*columns, strict=True)]
    for row, (answers,) in enumerate(fill_mask(model, texts[:4], TOP_K)):
        assert [token.decode() for token in found["tokens"][row]] == [a["token"] for a in answers]
        close(found["scores"][row], [a["score"] for a in answers])
    assert set(found["tokens"][4]) == {b""}  # cut off
    assert set(found["scores"][4]) == {-1}


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
    if family in ("roberta", "deberta", "modernbert"):
        return byte_pair()
    special = BERT | {"unknown": "<unk>"}
    model = train(control_symbols=[token for token in special.values() if token != "<unk>"])
    return kb.SentencePiece(model, special_tokens=special)


@pytest.mark.parametrize(
    "family",
    others_swept(
        ["albert", "roberta", "distilbert", "electra", "deberta", "deberta-v2", "modernbert"]
    ),
)
def test_families(family, tmp_path):
    tokenizer = tokenizer_of(family)
    traits = FAMILIES[family].TRAITS | SMALL | {"vocabulary_size": len(tokenizer.vocabulary)}
    config = kb.EncoderConfig(**traits)
    options = {"num_segments": config.num_segments}
    preprocessor = kb.Preprocessor(tokenizer, 24, padding="max_length", **options)
    model = make_model("classifier", preprocessor=preprocessor, **traits)
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
        ("classifier", byte_pair(ignore_merges=True), {}, "tokenizer's ignore_merges"),
        ("classifier", byte_pair(pattern="llama3"), {}, "tokenizer's pattern, llama3"),
    ],
)
def test_what_is_refused(task, tokenizer, options, message, tmp_path):
    if isinstance(tokenizer, str):
        tokenizer = tokenizer_of(tokenizer)
    preprocessor = tokenizer and kb.Preprocessor(tokenizer, 24)
    model = make_model(task, preprocessor=preprocessor, vocabulary_size=800)
    with pytest.raises(InputError, match=message):
        written(model, tmp_path, **options)
    assert not list(tmp_path.iterdir())
