"""ALBERT (Lan et al. 2019, https://arxiv.org/abs/1909.11942).

All layers share their weights. The embedding is factorized. The second pretraining objective is to
predict the order of two spans of text. Version 2 was trained for longer, without dropout.
"""

from collections.abc import Mapping
from typing import Any

from keras_bert.families import HeadSpec, bert, in_layers

TRAITS: dict[str, Any] = {
    "family": "albert",
    "embedding_size": 128,
    "activation": "gelu_tanh",
    "layer_groups": 1,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "classifier_dropout": 0.1,
}

_SIZES = {  # layers, hidden size, heads
    "albert_base": (12, 768, 12),
    "albert_large": (24, 1024, 16),
    "albert_xlarge": (24, 2048, 16),
    "albert_xxlarge": (12, 4096, 64),
}
_V1 = {"activation": "gelu", "hidden_dropout": 0.1, "attention_dropout": 0.1}
_WITHOUT_DROPOUT = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
_VERSIONS = {"v1": _V1, "v2": {}}

PRESETS: dict[str, dict[str, Any]] = {
    f"{name}_{version}": {
        **TRAITS,
        **changes,
        **(_WITHOUT_DROPOUT if name == "albert_xxlarge" else {}),
        "vocabulary_size": 30000,
        "num_layers": num_layers,
        "hidden_size": hidden_size,
        "num_heads": num_heads,
        "intermediate_size": 4 * hidden_size,
    }
    for name, (num_layers, hidden_size, num_heads) in _SIZES.items()
    for version, changes in _VERSIONS.items()
}

TEXT: dict[str, Any] = bert.TEXT | {
    "tokenizer": "sentencepiece",
    "special_tokens": bert.TEXT["special_tokens"] | {"pad": "<pad>", "unknown": "<unk>"},
}

OBJECTIVES = ("mlm+sop", "mlm")

PRETRAINING: dict[str, Any] = bert.PRETRAINING | {"masking": "ngram"}

FINE_TUNING_RATES = {768: 3e-5, 1024: 2e-5, 2048: 1e-5, 4096: 1e-5}  # 1e-5 to 5e-5 (table 14)

HUGGING_FACE_CLASS = "Albert"
HUGGING_FACE_PREFIX = "albert."
HUGGING_FACE_CONFIG = bert.HUGGING_FACE_CONFIG | {
    "embedding_size": "embedding_size",
    "layer_groups": "num_hidden_groups",
    "layers_per_group": "inner_group_num",
    "classifier_dropout": "classifier_dropout_prob",
}
HUGGING_FACE_DEFAULTS: dict[str, Any] = {
    "vocab_size": 30000,
    "embedding_size": 128,
    "hidden_size": 4096,
    "num_hidden_layers": 12,
    "num_attention_heads": 64,
    "intermediate_size": 16384,
}


def from_hugging_face(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns transformers' configuration unchanged.

    Raises:
        ValueError: if transformers' model has a projection, but an `Encoder` does not.
    """
    if values["embedding_size"] == values["hidden_size"]:
        raise ValueError("embedding_size is hidden_size, but ALBERT's code still has a projection")
    return values


to_hugging_face = from_hugging_face


HUGGING_FACE = (
    *((kind, ours, f"albert.{theirs}") for kind, ours, theirs in bert.EMBEDDINGS),
    ("dense", "encoder/projection", "albert.encoder.embedding_hidden_mapping_in"),
    *in_layers(
        "albert.encoder.albert_layer_groups.{group}.albert_layers.{layer}.",
        ("dense", "attention/query", "attention.query"),
        ("dense", "attention/key", "attention.key"),
        ("dense", "attention/value", "attention.value"),
        ("dense", "attention/output", "attention.dense"),
        ("norm", "attention_layer_norm", "attention.LayerNorm"),
        ("dense", "intermediate", "ffn"),
        ("dense", "output", "ffn_output"),
        ("norm", "output_layer_norm", "full_layer_layer_norm"),
    ),
    ("dense", "encoder/pooler/dense", "albert.pooler"),
)
_MASKED_LM = (
    ("dense", "masked_lm/transform", "predictions.dense"),
    ("norm", "masked_lm/layer_norm", "predictions.LayerNorm"),
    ("vector", "masked_lm/bias", "predictions.bias"),
    ("table", "masked_lm/decoder", "predictions.decoder"),
)
_ORDER = (("dense", "next_sentence/logits", "sop_classifier.classifier"),)
_DROPOUT = "classifier_dropout_prob"

HUGGING_FACE_TASKS = {
    "encoder": HeadSpec("Model"),
    "classifier": HeadSpec("ForSequenceClassification", bert.CLASSIFIER, True, _DROPOUT),
    "masked_lm": HeadSpec("ForMaskedLM", _MASKED_LM),
    "multiple_choice": HeadSpec("ForMultipleChoice", bert.CLASSIFIER, True, _DROPOUT),
    "pretraining": HeadSpec("ForPreTraining", (*_MASKED_LM, *_ORDER), True),
    "span_classifier": HeadSpec("ForQuestionAnswering", bert.SPAN),
    "token_classifier": HeadSpec("ForTokenClassification", bert.CLASSIFIER, dropout=_DROPOUT),
}
