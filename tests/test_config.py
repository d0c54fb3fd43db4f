import dataclasses
import json

import pytest

import keras_bert as kb
from keras_bert.families import EncoderConfig

SMALL = {
    "vocabulary_size": 50,
    "hidden_size": 24,
    "num_layers": 3,
    "num_heads": 4,
    "intermediate_size": 40,
}


def test_json_round_trip():
    config = EncoderConfig(**SMALL, activation="silu", mask_value=-50.0, pooler=False)
    assert EncoderConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        EncoderConfig(**SMALL).hidden_size = 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 5}, "hidden_size 24 cannot be divided among num_heads 5"),
        ({"hidden_size": 0}, "hidden_size is 0, but must be a whole number of 1 or more"),
        ({"num_layers": 2.5}, "num_layers is 2.5"),
        ({"vocabulary_size": True}, "vocabulary_size is True"),
        ({"activation": "geluu"}, "activation is 'geluu', but must be gelu or gelu_tanh"),
        ({"hidden_dropout": 1.0}, "hidden_dropout is 1.0, but must be a number from 0 to below 1"),
        ({"classifier_dropout": "a"}, "classifier_dropout is 'a', but must be a number from 0"),
        ({"mask_value": 0}, "mask_value is 0, but must be a negative number"),
        ({"layer_groups": 2}, "num_layers 3 cannot be divided among layer_groups 2"),
        ({"layers_per_group": 2}, "layers_per_group 2 needs layer_groups; set"),
        ({"position_offset": -1}, "position_offset is -1, but must be a whole number from 0"),
        ({"position_terms": [{}]}, "position_terms is"),
        ({"position_terms": 3}, "position_terms is 3"),
        ({"pooler": 1}, "pooler is 1, but must be true or false"),
        ({"classifier_activation": "tan"}, "classifier_activation is 'tan'"),
        ({"hidden_sise": 8}, "no option 'hidden_sise'. Did you mean 'hidden_size'"),
    ],
)
def test_bad_values_are_named(changes, message):
    with pytest.raises(kb.InputError, match=message):
        EncoderConfig.from_dict(SMALL | changes)


def test_the_heads_dropout_is_that_of_the_hidden_states_unless_it_is_said():
    config = EncoderConfig(**SMALL, hidden_dropout=0.3)
    assert config.classifier_dropout == 0.3
    assert config.replace(hidden_dropout=0.0).classifier_dropout == 0.0
    assert config.replace(hidden_dropout=0.0, classifier_dropout=0.2).classifier_dropout == 0.2
    albert = EncoderConfig.preset("albert_base_v2")
    assert (albert.hidden_dropout, albert.classifier_dropout) == (0.0, 0.1)
    assert EncoderConfig.preset("distilbert_base").classifier_dropout == 0.2


def test_layers_that_share_weights():
    config = EncoderConfig(**SMALL | {"num_layers": 6}, layer_groups=2, layers_per_group=2)
    assert config.layer_order == (0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3)
    assert config.num_distinct_layers == 4
    assert EncoderConfig(**SMALL).layer_order == (0, 1, 2)
    assert EncoderConfig.preset("albert_base_v2").num_distinct_layers == 1


def test_missing_values_are_named():
    with pytest.raises(kb.InputError, match="needs these options: .*hidden_size, num_layers"):
        EncoderConfig.from_dict({"vocabulary_size": 3, "num_heads": 1, "intermediate_size": 4})


def test_presets_take_changes_and_unknown_ones_are_refused():
    config = EncoderConfig.preset("bert_tiny", vocabulary_size=99)
    assert (config.vocabulary_size, config.num_layers, config.hidden_size) == (99, 2, 128)
    with pytest.raises(kb.InputError, match="Did you mean 'bert_base'"):
        EncoderConfig.preset("bert_bass")


def test_embedding_size_follows_the_hidden_size_unless_it_was_set():
    assert EncoderConfig(**SMALL).replace(hidden_size=48).embedding_size == 48
    assert EncoderConfig(**SMALL, embedding_size=8).replace(hidden_size=48).embedding_size == 8
