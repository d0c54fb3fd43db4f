"""What is special about ModernBERT, MPNet, Nomic BERT, GTE and Jina v3 in transformers' files."""

import json
import logging

import numpy as np
import pytest

import keras_bert as kb
from keras_bert.checkpoints.variables import named_variables
from keras_bert.families import FAMILIES
from tests.checkpoints.huggingface import FIXTURES, check, copy, lacking
from tests.layers.test_encoder import SMALL


@pytest.mark.parametrize(
    ("folder", "fields", "base"),
    [
        ("gte-model", {"rope_parameters": {"rope_type": "default"}}, 160000.0),
        ("nomic_bert-model", {"rope_parameters": None}, 1000.0),
        ("nomic_bert-model", {"rope_parameters": None, "rotary_emb_base": 500}, 500.0),
        ("gte-model", {"rope_parameters": None, "rope_theta": 500000}, 500000.0),
        ("modernbert-model", {"rope_parameters": None, "global_rope_theta": 80000.0}, 80000.0),
    ],
)
def test_the_base_of_rotary_positions(folder, fields, base, tmp_path):
    assert kb.load(copy(folder, tmp_path, **fields)).config.rotary_base == base


@pytest.mark.parametrize(
    ("folder", "fields", "message"),
    [
        ("gte-model", {"rope_scaling": {"type": "dynamic"}}, "rope_type 'dynamic' is not supp"),
        ("modernbert-model", {"rope_scaling": {"rope_type": "yarn"}}, "rope_type 'yarn' is not"),
        (
            "jina_embeddings_v3-model",
            {"rope_parameters": {"rope_type": "linear"}},
            "rope_type 'linear' is not supported",
        ),
        (
            "modernbert-model",
            {"layer_types": ["sliding_attention", "full_attention"] * 2},
            "has no full_attention every n layers",
        ),
        ("nomic_bert-model", {"prenorm": True}, "prenorm True is not supported, only False is"),
        ("mpnet-model", {"relative_attention_num_buckets": 16}, "only 32 is"),
    ],
)
def test_what_an_encoder_cannot_express_is_refused(folder, fields, message, tmp_path):
    with pytest.raises(kb.CheckpointError, match=message):
        kb.load(copy(folder, tmp_path, **fields))


def test_the_number_of_task_embeddings_has_a_default(tmp_path):
    directory = lacking("ernie-model-task", tmp_path, "task_type_vocab_size")
    assert kb.load(directory).config.num_task_types == 3


def test_fields_of_earlier_releases(tmp_path):
    """`global_attn_every_n_layers` in place of `layer_types`."""
    directory = lacking("modernbert-model", tmp_path, "layer_types", "rope_parameters")
    config = kb.load(directory).config
    assert config == kb.load(FIXTURES / "modernbert-model").config


def test_another_tasks_head_is_not_taken_for_ones_own(caplog):
    """ModernBERT has one name for the logits of all heads, and one dense layer for all of them."""
    caplog.set_level(logging.WARNING)
    model = kb.load(FIXTURES / "modernbert-sequence", task="span_classifier")
    assert "span/logits/kernel" in caplog.text
    other = kb.load(FIXTURES / "modernbert-masked-lm")
    model = kb.load(FIXTURES / "modernbert-masked-lm", task="classifier", num_labels=2)
    hidden = named_variables(model)["classifier/hidden/kernel"]
    transform = named_variables(other)["masked_lm/transform/kernel"]
    assert np.array_equal(hidden, transform)


def test_the_tensors_tell_a_masked_language_model(tmp_path):
    directory = copy("modernbert-masked-lm", tmp_path, architectures=None)
    assert isinstance(kb.load(directory), kb.MaskedLanguageModel)


@pytest.mark.parametrize(
    ("folder", "value"), [("modernbert-model", "sans_pos"), ("gte-model", "rope")]
)
def test_rotary_encoders_have_no_type_of_position_embeddings(folder, value, tmp_path):
    """The authors of mmBERT and of GTE write the field, which transformers does not read."""
    check(kb.load(copy(folder, tmp_path, position_embedding_type=value)), folder)


def test_the_authors_name_for_the_pooling_of_eurobert(tmp_path):
    fields = {"classifier_pooling": None, "clf_pooling": "bos"}
    model = kb.load(copy("eurobert-sequence-first", tmp_path, **fields))
    check(model, "eurobert-sequence-first")
    assert model.pooling == "first"


@pytest.mark.parametrize(
    ("folder", "prefix", "other"),
    [("nomic_bert-masked-lm", "nomic_bert.", "bert."), ("gte-masked-lm", "gte.", "new.")],
)
def test_the_authors_prefix_of_tensors(folder, prefix, other, tmp_path):
    def rename(tensors):
        assert any(name.startswith(prefix) for name in tensors)
        return {
            other + n.removeprefix(prefix) if n.startswith(prefix) else n: x
            for n, x in tensors.items()
        }

    check(kb.load(copy(folder, tmp_path, rename)), folder)


def test_what_transformers_cannot_express(tmp_path):
    def model(family, task, **changes):
        config = FAMILIES[family].TRAITS | SMALL | {"num_layers": 2} | changes
        return task(kb.Encoder(kb.EncoderConfig(**config)))

    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc"]
    mpnet = model("mpnet", kb.MaskedLanguageModel)
    mpnet.preprocessor = kb.Preprocessor(kb.WordPiece(kb.Vocabulary(tokens)), 16)
    for other, message in (
        (mpnet, "starts positions at the padding's id"),
        (
            model("modernbert", kb.MaskedLanguageModel, classifier_activation="tanh"),
            "its classifier_activation is 'tanh', but the head needs 'gelu'",
        ),
        (
            model("modernbert", kb.MaskedLanguageModel, output_bias=True),
            "only one of intermediate_bias and output_bias is set",
        ),
        (model("nomic_bert", kb.MaskedLanguageModel, num_segments=0), "num_segments is 0"),
    ):
        with pytest.raises(kb.InputError, match=message):
            kb.save(other, tmp_path / "model", format="huggingface")
    assert not (tmp_path / "model").exists()


def test_ids_of_special_tokens_are_written(tmp_path):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc"]
    model = kb.load(FIXTURES / "modernbert-sequence")
    model.preprocessor = kb.Preprocessor(kb.WordPiece(kb.Vocabulary(tokens)), 16, num_segments=1)
    kb.save(model, tmp_path / "model", format="huggingface")
    values = json.loads((tmp_path / "model" / "config.json").read_text())
    assert [values[f"{name}_token_id"] for name in ("bos", "cls", "eos", "sep", "pad")] == [
        *(2, 2, 3, 3, 0)
    ]
    model = kb.load(FIXTURES / "eurobert-sequence")
    for at_end in (True, False):
        model.preprocessor = kb.Preprocessor(
            kb.WordPiece(kb.Vocabulary(tokens)), 16, separator_at_end=at_end
        )
        kb.save(model, tmp_path / "model", format="huggingface")
        values = json.loads((tmp_path / "model" / "config.json").read_text())
        assert values.get("eos_token_id") == (3 if at_end else None)
