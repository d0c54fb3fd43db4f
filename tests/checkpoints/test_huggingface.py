"""Against outputs that transformers gave; see tests/fixtures/huggingface/make.py."""

import json
import logging

import keras
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import keras_bert as kb
from keras_bert.checkpoints.variables import named_variables
from tests.checkpoints.huggingface import FIXTURES, FOLDERS, check, copy, weights
from tests.marks import others_slow, others_swept

CLASSES = {  # what a folder's name holds to the model in it; the first counts
    "electra-pretraining": kb.ReplacedTokenDetector,
    "-model": kb.Encoder,
    "-pretraining": kb.PretrainingModel,
    "-masked-lm": kb.MaskedLanguageModel,
    "-next-sentence": kb.NextSentencePredictor,
    "-sequence": kb.SequenceClassifier,
    "-token": kb.TokenClassifier,
    "-question-answering": kb.SpanClassifier,
    "-multiple-choice": kb.MultipleChoice,
}


HEADS = [n for n in FOLDERS if not n.startswith(("xlm-roberta", "camembert"))]


@pytest.mark.parametrize("folder", others_slow(FOLDERS, quick=HEADS))
def test_equals_transformers(folder, caplog):
    model = kb.load(FIXTURES / folder)
    assert type(model) is next(cls for part, cls in CLASSES.items() if part in folder)
    check(model, folder)
    assert not caplog.records  # nothing missing, nothing left over


ROUND_TRIPS = ["gte-model-without-segments", "modernbert-sequence-mean", "eurobert-sequence-first"]
ROUND_TRIPS += [
    name
    for name in FOLDERS
    if name.startswith("bert-") or name.endswith(("-masked-lm", "-sequence", "-pretraining"))
]


@pytest.mark.parametrize("folder", others_swept(FOLDERS, quick=ROUND_TRIPS))
def test_round_trip_is_bit_identical(folder, tmp_path):
    model = kb.load(FIXTURES / folder)
    kb.save(model, tmp_path / "ours")
    kb.save(kb.load(tmp_path / "ours"), tmp_path / "theirs", format="huggingface")
    before, after = weights(FIXTURES / folder), weights(tmp_path / "theirs")
    for name in [name for name in before if name.endswith(".decoder.bias")]:
        # Of an output matrix of its own; the head's bias is not used by transformers.
        if (head := name.replace(".decoder.bias", ".bias")) in before:
            before[head] = before[name]
    assert set(before) == set(after)
    for name, tensor in before.items():
        assert tensor.dtype == after[name].dtype
        assert np.array_equal(tensor, after[name]), name
    old, new = (
        json.loads((d / "config.json").read_text())
        for d in (FIXTURES / folder, tmp_path / "theirs")
    )
    differing = {key for key in new if key in old and old[key] != new[key]}
    if new["pad_token_id"] is None:  # without a tokenizer, it is not known
        differing -= {"pad_token_id"}
    assert differing <= {"classifier_dropout"}


def test_old_and_short_names(tmp_path):
    def rename(tensors):
        old = {
            n.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            ): x
            for n, x in tensors.items()
        }
        return {n.removeprefix("bert."): x for n, x in old.items()} | {
            "embeddings.position_ids": np.arange(16)[None]
        }

    check(kb.load(copy("bert-pretraining", tmp_path, rename)), "bert-pretraining")


def test_shards(tmp_path):
    directory = copy("bert-masked-lm", tmp_path)
    tensors = weights(directory)
    (directory / "model.safetensors").unlink()
    index = {}
    for number, names in enumerate((sorted(tensors)[::2], sorted(tensors)[1::2])):
        shard = f"model-0000{number + 1}-of-00002.safetensors"
        save_file({name: tensors[name] for name in names}, directory / shard)
        index |= dict.fromkeys(names, shard)
    path = directory / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": index}))
    check(kb.load(directory), "bert-masked-lm")
    for bad in ("../copy/" + shard, "/etc/passwd", "..", ""):
        path.write_text(json.dumps({"weight_map": index | {"cls.predictions.bias": bad}}))
        with pytest.raises(kb.CheckpointError, match="must be in the directory of"):
            kb.load(directory)
    path.write_text(json.dumps({"weight_map": index}))
    (directory / shard).unlink()
    with pytest.raises(kb.CheckpointError, match=f"{shard} is missing"):
        kb.load(directory)
    save_file(tensors, directory / "model.safetensors")  # counts first, as in transformers
    check(kb.load(directory), "bert-masked-lm")


def test_another_task_initializes_its_head_and_says_so(caplog):
    model = kb.load(FIXTURES / "bert-token", task="classifier", labels=["a", "b"])
    assert "encoder/pooler/dense/kernel" in caplog.text
    assert "classifier/logits/kernel" in caplog.text
    assert model.labels == ("a", "b")
    assert np.std(named_variables(model)["classifier/logits/kernel"]) > 0
    source = weights(FIXTURES / "bert-token")["bert.encoder.layer.1.output.dense.weight"]
    assert np.array_equal(model.encoder.encoder_layers[1].output_projection.kernel, source.T)


def test_heads_that_are_left_behind_are_no_reason_to_warn(tmp_path, caplog):
    directory = copy("bert-pretraining", tmp_path, lambda t: t | {"extra": np.zeros(3, "float32")})
    with caplog.at_level(logging.INFO):
        kb.load(directory, task="encoder")
    left, extra = caplog.records
    assert left.levelno == logging.INFO
    assert "cls.predictions.bias" in left.message
    assert extra.levelno == logging.WARNING
    assert extra.message == "In the checkpoint, but not used: extra."


def test_a_task_that_was_asked_for_leaves_other_heads_behind_quietly(tmp_path, caplog):
    directory = copy("bert-pretraining", tmp_path, architectures=["BertForMaskedLM"])
    kb.load(directory, task="masked_lm")
    assert not caplog.records
    kb.load(directory)  # nobody asked for a masked language model
    assert "not used: cls.seq_relationship.bias" in caplog.text


def test_unexpected_tensors_are_named(tmp_path, caplog):
    directory = copy("bert-model", tmp_path, lambda t: t | {"extra.weight": np.zeros(3, "float32")})
    with caplog.at_level(logging.WARNING):
        kb.load(directory)
    assert "not used: extra.weight" in caplog.text


@pytest.mark.parametrize(
    ("folder", "name", "other"),
    [  # the other one counts, as in transformers 5.23
        ("bert-masked-lm", "cls.predictions.bias", "cls.predictions.decoder.bias"),
        ("albert-pretraining", "predictions.bias", "predictions.decoder.bias"),
        ("bert-sequence", "bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.gamma"),
        ("bert-sequence", "embeddings.LayerNorm.bias", "bert.embeddings.LayerNorm.bias"),
    ],
)
def test_two_names_of_one_tensor(folder, name, other, tmp_path, caplog):
    def change(tensors, difference=0):
        first = tensors.pop(name) if name in tensors else tensors[other]
        return tensors | {name: first, other: first + np.float32(difference)}

    directory = copy(folder, tmp_path, change)
    check(kb.load(directory), folder)
    assert not caplog.records
    tensors = change(weights(FIXTURES / folder), 1)
    save_file(tensors, directory / "model.safetensors")
    model = kb.load(directory)
    (record,) = caplog.records
    assert f"{other!r} and {name!r} are one tensor" in record.message
    with pytest.raises(AssertionError):
        check(model, folder)
    found = [np.array_equal(weight, tensors[other]) for weight in model.weights]
    assert sum(found) == 1


def test_a_decoder_that_is_not_tied_though_the_configuration_says_so(tmp_path, caplog):
    directory = copy("bert-masked-lm", tmp_path)
    tensors = weights(directory)
    table = tensors["bert.embeddings.word_embeddings.weight"]
    save_file(tensors | {"cls.predictions.decoder.weight": table}, directory / "model.safetensors")
    model = kb.load(directory)
    assert model.tied
    assert not caplog.records
    save_file(
        tensors | {"cls.predictions.decoder.weight": table + 1}, directory / "model.safetensors"
    )
    model = kb.load(directory)
    (record,) = caplog.records
    assert "differ, though tie_word_embeddings is true; both are kept" in record.message
    assert not model.tied
    variables = named_variables(model)
    np.testing.assert_array_equal(variables["encoder/embeddings/token_embedding"], table)
    np.testing.assert_array_equal(variables["masked_lm/decoder"], table + 1)


def test_a_float64_that_no_float32_can_hold(tmp_path):
    def change(tensors):
        tensors["bert.pooler.dense.bias"] = tensors["bert.pooler.dense.bias"].astype("float64")
        tensors["bert.pooler.dense.bias"][0] = 1e39
        return tensors

    directory = copy("bert-pretraining", tmp_path, change)
    with pytest.raises(kb.CheckpointError, match="pooler.dense.bias' holds .* not finite as float"):
        kb.load(directory)


def test_an_adapter_is_not_applied(tmp_path, caplog):
    directory = copy("bert-sequence", tmp_path)
    adapter = {"base_model_name_or_path": "someone/base", "task_type": "SEQ_CLS"}
    (directory / "adapter_config.json").write_text(json.dumps(adapter))
    check(kb.load(directory), "bert-sequence")
    (record,) = caplog.records
    assert "adapter_config.json is not applied. To merge the adapter, use peft" in record.message
    assert (
        f"AutoPeftModelForSequenceClassification.from_pretrained('{directory}')" in record.message
    )
    for name in ("model.safetensors", "config.json"):
        (directory / name).unlink()
        with pytest.raises(kb.CheckpointError, match="an adapter for someone/base, not a whole mo"):
            kb.load(directory)


def _cut(tensors):
    return {
        n: x[:-1] if n.endswith("layer.1.output.dense.weight") else x for n, x in tensors.items()
    }


def _drop(tensors):
    return {n: x for n, x in tensors.items() if not n.endswith("layer.1.output.dense.weight")}


def _nan(tensors):
    tensors["bert.encoder.layer.1.output.dense.weight"][3, 3] = np.nan
    return tensors


def _integers(tensors):
    name = "bert.encoder.layer.1.output.dense.weight"
    return tensors | {name: tensors[name].astype("int32")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_cut, r"layer.1.output.dense.weight' has shape \[11, 20\]"),
        (_drop, "lacks the tensor 'bert.encoder.layer.1.output.dense.weight'"),
        (_nan, "layer.1.output.dense.weight' holds values that are not finite"),
        (_integers, "layer.1.output.dense.weight' is int32"),
    ],
)
def test_damage_is_named(tmp_path, change, message):
    with pytest.raises(kb.CheckpointError, match=message):
        kb.load(copy("bert-masked-lm", tmp_path, change))


@pytest.mark.parametrize(
    ("folder", "pooler"),
    [("roberta-token", False), ("albert-token", True), ("electra-token", False)],
)
def test_a_classifier_gets_the_pooler_that_its_family_has(folder, pooler, caplog):
    model = kb.load(FIXTURES / folder, task="classifier", num_labels=2)
    assert model.config.pooler == pooler
    assert ("encoder/pooler/dense/kernel" in caplog.text) == pooler
    assert ("classifier/hidden/kernel" in caplog.text) == (not pooler)


def test_pickles_are_refused(tmp_path):
    directory = copy("bert-masked-lm", tmp_path)
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    (directory / "optimizer.pt").touch()
    with pytest.raises(kb.CheckpointError) as caught:
        kb.load(directory)
    *_, tokenizer = str(caught.value).split("; ")
    old, new = repr(str(directory)), repr(f"{directory}-safetensors")
    assert f"{directory / 'pytorch_model.bin'} is a pickle" in str(caught.value)
    convert = f"from_pretrained({old}).save_pretrained({new})"
    assert f"transformers: transformers.BertForMaskedLM.{convert}; " in str(caught.value)
    assert tokenizer == f"transformers.AutoTokenizer.{convert}."


def test_pickles_of_a_training_are_no_weights(tmp_path):
    directory = copy("bert-masked-lm", tmp_path)
    (directory / "model.safetensors").rename(directory / "training_args.bin")
    with pytest.raises(kb.CheckpointError, match=r"model\.safetensors is missing"):
        kb.load(directory)


def test_keras_file_of_a_loaded_model(tmp_path):
    model = kb.load(FIXTURES / "bert-masked-lm-untied")
    model.save(tmp_path / "m.keras")
    check(keras.models.load_model(tmp_path / "m.keras"), "bert-masked-lm-untied")


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16, "float64"])
def test_other_floats_become_ours(dtype, tmp_path):
    directory = copy(
        "bert-pretraining", tmp_path, lambda ts: {n: x.astype(dtype) for n, x in ts.items()}
    )
    model = kb.load(directory)
    expected = weights(FIXTURES / "bert-pretraining")["bert.pooler.dense.weight"].astype(dtype)
    assert np.array_equal(model.encoder.pooler.projection.kernel, expected.astype("float32").T)
    half = kb.load(directory, dtype="bfloat16")
    assert {variable.dtype for variable in half.weights} == {"bfloat16"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda e: kb.SequenceClassifier(e, 2, pooling="mean"), "its pooling is 'mean'"),
        (lambda e: kb.MaskedLanguageModel(e, activation="relu"), "its activation is 'relu'"),
        (lambda e: kb.MaskedLanguageModel(e, layer_norm_epsilon=1e-5), "epsilon is 1e-05"),
    ],
)
def test_what_transformers_cannot_express_is_refused(make, message, tmp_path):
    model = make(kb.load(FIXTURES / "bert-model"))
    with pytest.raises(kb.InputError, match=message):
        kb.save(model, tmp_path / "theirs", format="huggingface")
    assert not list(tmp_path.iterdir())


def test_models_that_their_family_does_not_have_there_are_refused(tmp_path):
    roberta = kb.load(FIXTURES / "roberta-model")
    config = roberta.config
    small = kb.WordPiece(kb.Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]))
    albert = kb.Encoder(kb.load(FIXTURES / "albert-model").config.replace(embedding_size=12))
    padded = kb.Encoder(config)
    padded.preprocessor = kb.Preprocessor(small, 16)
    for model, format, message in (
        (kb.NextSentencePredictor(roberta), "huggingface", "no NextSentencePredictor of this fam"),
        (kb.SequenceClassifier(roberta, 2, pooling="pooled"), "huggingface", "pooling is 'pooled'"),
        (kb.Encoder(config.replace(classifier_activation="")), "huggingface", "activation is ''"),
        (kb.Encoder(config.replace(position_offset=0)), "huggingface", "position_offset is 0"),
        (kb.Encoder(config.replace(family="rob")), "huggingface", "no family 'rob'"),
        (
            padded,
            "huggingface",
            "padding's id . 1, which is 1, but the model's position_offset is 2",
        ),
        (albert, "huggingface", "cannot express this model: embedding_size is hidden_size"),
        (roberta, "google", "its family is 'roberta', but the library"),
        (roberta, "keras-hub", "its family is 'roberta', but the library"),
    ):
        with pytest.raises(kb.InputError, match=message):
            kb.save(model, tmp_path / "theirs", format=format)
    assert not list(tmp_path.iterdir())


def test_a_pooler_that_transformers_would_not_expect_is_left_out(tmp_path):
    model = kb.MaskedLanguageModel(kb.load(FIXTURES / "bert-model"))
    kb.save(model, tmp_path / "theirs", format="huggingface")
    assert not [name for name in weights(tmp_path / "theirs") if "pooler" in name]
    kb.save(model.encoder, tmp_path / "encoder", format="huggingface")
    assert "pooler.dense.weight" in weights(tmp_path / "encoder")


def test_heads_that_only_we_have_are_initialized(caplog):
    model = kb.load(FIXTURES / "bert-token", task="classifier", num_labels=2, pooling="attention")
    assert "pooling/score/kernel" in caplog.text
    assert not model.config.pooler


def test_a_vocabulary_larger_than_the_embedding_is_left_out(tmp_path, caplog):
    directory = copy("bert-model", tmp_path)
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    (directory / "vocab.txt").write_text("\n".join([*special, *map(str, range(36))]))
    model = kb.load(directory)
    check(model, "bert-model")
    assert model.preprocessor is None
    assert (
        "has 41 tokens, but the token embedding has only 40 rows. The model has no" in caplog.text
    )
    with pytest.raises(kb.CheckpointError, match="has 41 tokens, but .* has only 40 rows"):
        kb.load(directory, preprocessor=kb.Preprocessor(kb.load_tokenizer(directory), 8))
    (directory / "vocab.txt").write_text("\n".join([*special, *map(str, range(30))]))
    assert len(kb.load(directory).preprocessor.vocabulary) == 35


WITHOUT_MASK = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *map(str, range(36))]  # for a row each


@pytest.mark.parametrize("listed", [False, True], ids=["nowhere", "among the added tokens"])
def test_a_vocabulary_without_a_mask(listed, tmp_path, caplog):
    """As in transformers, the mask is the token after the last one, which may have no row."""
    directory = copy("bert-model", tmp_path)
    (directory / "vocab.txt").write_text("\n".join(WITHOUT_MASK))
    if listed:
        (directory / "added_tokens.json").write_text('{"[MASK]": 40}')
    encoder = kb.load(directory)
    assert "the token embedding has no row for [MASK]" in caplog.text
    np.testing.assert_array_equal(
        encoder.preprocessor(["7 x [MASK]"])["token_ids"][0, :8], [2, 11, 1, 1, 1, 1, 3, 0]
    )
    kb.save(encoder, tmp_path / "ours")
    kb.save(encoder, tmp_path / "theirs", format="huggingface")
    for again in (tmp_path / "ours", tmp_path / "theirs"):
        assert kb.load(again).preprocessor.vocabulary == encoder.preprocessor.vocabulary
    with pytest.raises(kb.CheckpointError, match="has 41 tokens, but .* has only 40 rows"):
        kb.load(directory, preprocessor=encoder.preprocessor)
    with pytest.raises(kb.InputError, match=r"has no \[MASK\]"):
        kb.load_tokenizer(directory)


def test_a_row_is_left_for_the_mask(tmp_path, caplog):
    directory = copy("bert-model", tmp_path)
    (directory / "vocab.txt").write_text("\n".join(WITHOUT_MASK[:-1]))
    assert kb.load(directory).preprocessor.vocabulary.mask_id == 39
    assert not caplog.text


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (WITHOUT_MASK[1:], "vocab.txt: The vocabulary has no [PAD]"),
        ([*WITHOUT_MASK[:-2], "0"], "vocab.txt has '0' twice, at line 5 and line 39"),
        (
            [*WITHOUT_MASK[:-2], "中" * 90],
            "token 38 has 270 bytes, but tf.text matches at most 256",
        ),
    ],
)
def test_a_vocabulary_that_cannot_be_used_is_left_out(tokens, message, tmp_path, caplog):
    directory = copy("bert-model", tmp_path)
    (directory / "vocab.txt").write_text("\n".join(tokens))
    check_without_preprocessor(directory, message, caplog)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "vocab.json",
            '{"PAD": 0, "C": 1}',
            "vocab.json is not a file of BertTokenizer. If it belongs",
        ),
        ("tokenizer.json", "{", "tokenizer.json is not valid JSON"),
        ("spiece.model", "no model", "spiece.model is not a file of BertTokenizer. If it belongs"),
    ],
)
def test_a_stray_file_of_a_tokenizer_is_left_out(name, content, message, tmp_path, caplog):
    directory = copy("bert-model", tmp_path)
    (directory / name).write_text(content)
    check_without_preprocessor(directory, message, caplog)


def check_without_preprocessor(directory, message, caplog):
    model = kb.load(directory)
    check(model, "bert-model")
    assert model.preprocessor is None
    (record,) = caplog.records
    assert message in record.getMessage()
    assert "no preprocessor; give it one with load(..., preprocessor=...)" in record.getMessage()
