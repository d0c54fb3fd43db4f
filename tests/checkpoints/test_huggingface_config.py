"""What a `config.json` of transformers says, and what it leaves out."""

import json

import pytest

import keras_bert as kb
from tests.checkpoints.huggingface import FIXTURES, check, copy, lacking


def test_configuration_is_read():
    model = kb.load(FIXTURES / "bert-sequence-multi-label")
    assert model.labels == ("no", "maybe", "yes")
    assert model.problem_type == "multi_label"
    assert kb.load(FIXTURES / "bert-sequence-regression").problem_type == "regression"
    assert kb.load(FIXTURES / "bert-model-gelu-new").config.activation == "gelu_tanh"
    assert kb.load(FIXTURES / "bert-model-gelu-new").config.layer_norm_epsilon == 1e-5
    assert not kb.load(FIXTURES / "bert-token").config.pooler


def test_labels_that_have_no_names_are_numbered(tmp_path):
    numbered = copy("bert-sequence", tmp_path, id2label=None, label2id=None, num_labels=3)
    assert kb.load(numbered).labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    with pytest.raises(kb.CheckpointError, match="num_labels 'three' is not a number"):
        kb.load(copy("bert-sequence", tmp_path / "b", id2label=None, num_labels="three"))


def test_configuration_of_other_families_is_read():
    config = kb.load(FIXTURES / "roberta-model-other-padding").config
    assert (config.position_offset, config.max_positions) == (5, 16)
    assert config.activation == "gelu_tanh"
    config = kb.load(FIXTURES / "albert-model-groups").config
    assert (config.layer_groups, config.layers_per_group, config.embedding_size) == (2, 2, 8)
    assert kb.load(FIXTURES / "distilbert-question-answering").dropout == 0.3
    assert kb.load(FIXTURES / "distilbert-sequence").dropout == 0.2
    relu = kb.load(FIXTURES / "roberta-masked-lm-relu-untied")
    assert (relu.config.activation, relu.activation) == ("relu", "gelu")


def test_architecture_by_the_tensors_where_none_is_named(tmp_path):
    assert isinstance(
        kb.load(copy("bert-pretraining", tmp_path, architectures=None)), kb.PretrainingModel
    )


def test_a_head_that_the_configuration_does_not_name_is_found(tmp_path, caplog):
    directory = copy("bert-pretraining", tmp_path, architectures=["BertForMaskedLM"])
    assert isinstance(kb.load(directory), kb.MaskedLanguageModel)
    caplog.clear()
    check(kb.load(directory, task="pretraining"), "bert-pretraining")
    assert not caplog.records


@pytest.mark.parametrize(
    ("folder", "configuration", "message"),
    [
        ("bert-masked-lm", {"hidden_act": "mish"}, "hidden_act 'mish' is not supported"),
        ("bert-masked-lm", {"model_type": "t5"}, "model_type 't5' is not supported"),
        ("bert-masked-lm", {"num_attention_heads": 5}, "cannot be divided"),
        ("bert-masked-lm", {"vocab_size": 41}, r"has shape \[40, 12\].*wants \[41, 12\]"),
        ("bert-masked-lm", {"vocab_size": 10**12}, "vocabulary_size is 1000000000000"),
        ("bert-masked-lm", {"num_hidden_layers": 10**9}, "num_layers is 1000000000"),
        ("bert-masked-lm", {"position_embedding_type": "relative_key"}, "only 'absolute' is"),
        ("bert-masked-lm", {"is_decoder": True}, "only encoders"),
        ("bert-masked-lm", {"hidden_size": "12"}, "hidden_size is '12'"),
        ("distilbert-model", {"activation": "mish"}, "activation 'mish' is not supported"),
        ("electra-multiple-choice", {"summary_type": "mean"}, "summary_type 'mean' is not"),
        ("roberta-model", {"pad_token_id": "1"}, "holds a value of the wrong type"),
        ("roberta-model", {"max_position_embeddings": 16}, r"shape \[18, 12\].*wants \[16, 12\]"),
        ("albert-model-groups", {"num_hidden_groups": 3}, "cannot be divided among layer_groups 3"),
        ("albert-model-groups", {"num_hidden_groups": 4}, "4 encoder layers, but .* says 8"),
        ("albert-model", {"embedding_size": 12}, "embedding_size is hidden_size"),
        ("albert-model-groups", {"inner_group_num": 10**9}, "layers_per_group is 1000000000"),
    ],
)
def test_what_no_encoder_can_be_is_named(folder, configuration, message, tmp_path):
    with pytest.raises(kb.CheckpointError, match=message):
        kb.load(copy(folder, tmp_path, **configuration))


@pytest.mark.parametrize(
    ("folder", "field"),
    [
        ("bert-model", "classifier_dropout"),
        ("roberta-model", "classifier_dropout"),
        ("distilbert-model", "seq_classif_dropout"),
        ("albert-model", "classifier_dropout_prob"),
        ("electra-model", "classifier_dropout"),
        ("deberta-model", "cls_dropout"),
    ],
)
def test_a_new_classifier_has_the_dropout_of_the_configuration(folder, field, tmp_path):
    directory = copy(folder, tmp_path, **{field: 0.35})
    assert kb.load(directory, task="classifier", num_labels=2).dropout == 0.35
    kb.save(kb.load(directory), tmp_path / "theirs", format="huggingface")
    assert json.loads((tmp_path / "theirs" / "config.json").read_text())[field] == 0.35


def test_what_a_configuration_lacks_is_as_in_transformers(tmp_path):
    model = kb.load(lacking("roberta-model-two-segments", tmp_path / "a", "type_vocab_size"))
    assert model.config.num_segments == 2
    model = kb.load(lacking("xlm-roberta-model", tmp_path / "b", "layer_norm_eps"))
    assert model.config.layer_norm_epsilon == 1e-12
    with pytest.raises(kb.CheckpointError, match=r"wants \[\d+, 128\] for .*token_embedding"):
        kb.load(lacking("electra-model", tmp_path / "c", "embedding_size"))
    model = kb.load(lacking("distilbert-question-answering", tmp_path / "d", "qa_dropout"))
    assert model.dropout == 0.1
    model = kb.load(lacking("albert-sequence", tmp_path / "e", "classifier_dropout_prob"))
    assert model.dropout == 0.1
    directory = copy("distilbert-token", tmp_path / "f", seq_classif_dropout=0.4, dropout=0.3)
    assert kb.load(directory).dropout == 0.3
