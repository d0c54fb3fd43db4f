"""Fields of transformers' `config.json`, present and missing."""

import json

import numpy as np
import pytest

import keras_bert as kb
from keras_bert.families import FAMILIES
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


LABELS = {"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}


@pytest.mark.parametrize("folder", ["bert-sequence", "bert-token"])
@pytest.mark.parametrize(
    "changes",
    [LABELS, LABELS | {"num_labels": 50}, {"id2label": None}, {"id2label": {}, "num_labels": 7}],
)
def test_the_weights_decide_how_many_labels_have_default_names(folder, changes, tmp_path):
    model = kb.load(copy(folder, tmp_path, **changes))
    assert model.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    check(model, folder)


def test_names_of_labels_come_before_their_number(tmp_path):
    model = kb.load(copy("bert-sequence", tmp_path, num_labels=50))
    assert model.labels == ("no", "maybe", "yes")


@pytest.mark.parametrize("folder", ["bert-sequence", "roberta-token"])
@pytest.mark.parametrize(
    ("id2label", "message"),
    [
        ({"1": "a", "2": "b", "3": "c"}, "has 3 labels, but none for the id 0"),
        ({"0": "a", "1": "b", "3": "c"}, "has 3 labels, but none for the id 2"),
        ({"0": "a", "00": "b", "1": "c"}, "has 3 labels, but none for the id 2"),
        ({"0": "a", "1": "b", "2": "b"}, r"\['a', 'b', 'b'\] must be one or more different names"),
        ({"0": "a", "1": None, "2": "c"}, "has None in place of a label's name"),
        ({"0": "a", "1": ["b"], "2": "c"}, r"has \['b'\] in place of a label's name"),
        ({"0": "a", "1": "b", "2": "\ud800"}, "has a lone surrogate"),
        ({"a": 0, "b": 1, "c": 2}, "is not a table from ids to names"),
        (["a", "b", "c"], "is not a table from ids to names"),
        ({"0": "a", "1": "b"}, "names 2 labels, but the weights have 3 outputs"),
    ],
)
def test_labels_that_are_not_one_for_each_output(folder, id2label, message, tmp_path):
    directory = copy(folder, tmp_path, id2label=id2label)
    advice = r"Correct the file, or load with labels=\[\.\.\.\]\."
    with pytest.raises(kb.CheckpointError, match=rf"config\.json: .*{message}.*{advice}"):
        kb.load(directory)
    assert kb.load(directory, labels=["x", "y", "z"]).labels == ("x", "y", "z")
    assert isinstance(kb.load(directory, task="encoder"), kb.Encoder)


def test_labels_that_are_numbers(tmp_path):
    model = kb.load(copy("bert-sequence", tmp_path, id2label={"0": 3, "1": 4, "2": 5}))
    assert model.labels == ("3", "4", "5")


def test_a_problem_type_that_is_not_known(tmp_path):
    directory = copy("bert-sequence", tmp_path, problem_type="multi_class")
    message = "problem_type 'multi_class' is not one of .* load with problem_type='single_label'"
    with pytest.raises(kb.CheckpointError, match=message):
        kb.load(directory)
    check(kb.load(directory, problem_type="single_label"), "bert-sequence")


@pytest.mark.parametrize("folder", [f"{family}-token" for family in FAMILIES])
def test_the_family_by_the_class_where_there_is_no_model_type(folder, tmp_path):
    check(kb.load(lacking(folder, tmp_path, "model_type")), folder)


def test_the_family_by_the_class_of_another_framework(tmp_path):
    names = {"architectures": ["TFBertForTokenClassification"], "model_type": None}
    check(kb.load(copy("bert-token", tmp_path, **names)), "bert-token")


@pytest.mark.parametrize("architectures", [None, [], ["BERT_BiLSTM_CRF"]])
def test_no_family(architectures, tmp_path):
    directory = copy("bert-token", tmp_path, model_type=None, architectures=architectures)
    with pytest.raises(kb.CheckpointError, match=r'Add a line .* such as "model_type": "bert";'):
        kb.load(directory)


def test_an_architecture_that_is_not_known_opens_by_its_tensors(tmp_path, caplog):
    directory = copy("bert-token", tmp_path, architectures=["MyBertForTokenClassification"])
    assert isinstance(kb.load(directory), kb.Encoder)
    assert "names the architecture 'MyBertForTokenClassification', which is not" in caplog.text
    assert "but not used: classifier.bias, classifier.weight" in caplog.text


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
        ("bert-masked-lm", {"vocab_size": 41}, r"has shape \[40, 12\].*needs \[41, 12\]"),
        ("bert-masked-lm", {"vocab_size": 10**12}, "vocabulary_size is 1000000000000"),
        ("bert-masked-lm", {"num_hidden_layers": 10**9}, "num_layers is 1000000000"),
        ("bert-masked-lm", {"position_embedding_type": "relative_key"}, "only 'absolute' is"),
        ("bert-masked-lm", {"is_decoder": True}, "only encoders"),
        ("bert-masked-lm", {"hidden_size": "12"}, "hidden_size is '12'"),
        ("distilbert-model", {"activation": "mish"}, "activation 'mish' is not supported"),
        (
            "electra-multiple-choice",
            {"summary_type": "mean"},
            r"summary_type 'mean' is not supported, only 'first' is.*task=\"encoder\"",
        ),
        ("roberta-model", {"pad_token_id": "1"}, "holds a value of the wrong type"),
        ("roberta-model", {"max_position_embeddings": 16}, r"shape \[18, 12\].*needs \[16, 12\]"),
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
    with pytest.raises(kb.CheckpointError, match=r"needs \[\d+, 128\] for .*token_embedding"):
        kb.load(lacking("electra-model", tmp_path / "c", "embedding_size"))
    model = kb.load(lacking("distilbert-question-answering", tmp_path / "d", "qa_dropout"))
    assert model.dropout == 0.1
    model = kb.load(lacking("albert-sequence", tmp_path / "e", "classifier_dropout_prob"))
    assert model.dropout == 0.1
    directory = copy("distilbert-token", tmp_path / "f", seq_classif_dropout=0.4, dropout=0.3)
    assert kb.load(directory).dropout == 0.3
    model = kb.load(lacking("bert-sequence", tmp_path / "g", "num_attention_heads", "hidden_act"))
    assert (model.config.num_heads, model.config.activation) == (12, "gelu")


def test_sizes_under_the_names_of_bert(tmp_path):
    """As in transformers, they come before those of DistilBERT."""
    path = copy("distilbert-sequence", tmp_path) / "config.json"
    values = json.loads(path.read_text())
    for name, own in (
        ("hidden_size", "dim"),
        ("num_hidden_layers", "n_layers"),
        ("num_attention_heads", "n_heads"),
    ):
        values[name] = values.pop(own)
    path.write_text(json.dumps(values | {"dim": 768, "n_heads": 1}))
    check(kb.load(path.parent), "distilbert-sequence")


@pytest.mark.parametrize("folder", ["electra-sequence", "electra-token", "electra-model"])
def test_a_summary_is_of_multiple_choice_alone(folder, tmp_path, caplog):
    summary = {"summary_type": "last", "summary_use_proj": False, "summary_activation": None}
    check(kb.load(copy(folder, tmp_path, **summary)), folder)
    assert not caplog.records


def test_a_choice_with_another_summary_opens_as_an_encoder(tmp_path):
    directory = copy("electra-multiple-choice", tmp_path, summary_type="last")
    assert isinstance(kb.load(directory, task="encoder"), kb.Encoder)


@pytest.mark.parametrize(
    ("folder", "tensors", "size"),
    [
        (
            "deberta-v2-model-own-position-keys",
            ["deberta.encoder.LayerNorm.weight", "deberta.encoder.LayerNorm.bias"],
            1,
        ),
        ("deberta-v2-model-ordinary-attention", ["deberta.encoder.rel_embeddings.weight"], 2),
        ("deberta-model", ["deberta.embeddings.token_type_embeddings.weight"], 2),
    ],
)
def test_tensors_of_parts_that_are_switched_off(folder, tensors, size, tmp_path, caplog):
    """They are not used, as in transformers, and named."""
    values = json.loads((FIXTURES / folder / "config.json").read_text())
    added = {name: np.ones([values["hidden_size"]] * size, "float32") for name in tensors}
    check(kb.load(copy(folder, tmp_path, lambda old: old | added)), folder)
    assert f"but not used: {', '.join(sorted(tensors))}." in caplog.text
