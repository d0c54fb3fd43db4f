"""DeBERTa-v2 and -v3 (He et al. 2021, https://arxiv.org/abs/2111.09543).

Distances between positions fall into buckets that grow logarithmically. Content and relative
positions are projected with the same weights. The models of v2 have a convolution in parallel to
the first layer. The models of v3 are pretrained by replaced token detection. transformers has the
name "deberta-v2" for both. The sizes are published in github.com/microsoft/DeBERTa.
"""

from collections.abc import Mapping
from typing import Any

from keras_bert.families import HeadSpec, bert, deberta, in_layers

TRAITS: dict[str, Any] = deberta.TRAITS | {
    "family": "deberta-v2",
    "key_bias": True,
    "position_terms": ("p2c", "c2p"),
    "position_buckets": 256,
    "shared_position_keys": True,
    "relative_layer_norm": True,
}

_CONVOLUTION = {"convolution_size": 3, "convolution_activation": "gelu"}
_VERSION_2 = TRAITS | _CONVOLUTION | {"vocabulary_size": 128100}
_VERSION_3 = TRAITS | {"vocabulary_size": 128100}

PRESETS: dict[str, dict[str, Any]] = {
    "deberta_v2_xlarge": _VERSION_2 | bert.sizes(24, 1536),
    "deberta_v2_xxlarge": _VERSION_2 | bert.sizes(48, 1536),
    "deberta_v3_xsmall": _VERSION_3 | bert.sizes(12, 384),
    "deberta_v3_small": _VERSION_3 | bert.sizes(6, 768),
    "deberta_v3_base": _VERSION_3 | bert.sizes(12, 768),
    "deberta_v3_large": _VERSION_3 | bert.sizes(24, 1024),
    "mdeberta_v3_base": _VERSION_3 | bert.sizes(12, 768) | {"vocabulary_size": 251000},
}

TEXT: dict[str, Any] = bert.TEXT | {"tokenizer": "sentencepiece"}

OBJECTIVES = ("rtd+gdes", "rtd", "mlm")

PRETRAINING: dict[str, Any] = bert.PRETRAINING

FINE_TUNING_RATES = deberta.FINE_TUNING_RATES

HUGGING_FACE_CLASS = "DebertaV2"
HUGGING_FACE_PREFIX = deberta.HUGGING_FACE_PREFIX
HUGGING_FACE_OTHER_NAMES = deberta.HUGGING_FACE_OTHER_NAMES
HUGGING_FACE_CONFIG = deberta.HUGGING_FACE_CONFIG | {
    "position_buckets": "position_buckets",
    "shared_position_keys": "share_att_key",
    "relative_layer_norm": "norm_rel_ebd",
    "convolution_size": "conv_kernel_size",
    "convolution_activation": "conv_act",
}
HUGGING_FACE_DEFAULTS = deberta.HUGGING_FACE_DEFAULTS | {
    "vocab_size": 128100,
    "hidden_size": 1536,
    "num_hidden_layers": 24,
    "num_attention_heads": 24,
    "intermediate_size": 6144,
    "share_att_key": False,
    "position_buckets": -1,
    "norm_rel_ebd": "none",
    "conv_kernel_size": 0,
    "conv_act": "tanh",
}
HUGGING_FACE_FIXED: dict[str, Any] = {"conv_groups": 1}


def from_hugging_face(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts transformers' configuration like `deberta.from_hugging_face`."""
    size = values.get("attention_head_size")
    if size and size * values["num_attention_heads"] != values["hidden_size"]:
        raise ValueError(f"attention_head_size {size} is not supported")
    return {
        **deberta.from_hugging_face(values),
        "position_buckets": max(values["position_buckets"], 0),
        "norm_rel_ebd": "layer_norm" in values["norm_rel_ebd"].lower(),
    }


def to_hugging_face(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration with transformers' values."""
    return {
        **deberta.to_hugging_face(values),
        "position_buckets": values["position_buckets"] or -1,
        "norm_rel_ebd": "layer_norm" if values["norm_rel_ebd"] else "none",
    }


HUGGING_FACE = (
    *deberta.EMBEDDINGS,
    ("norm", "encoder/relative_positions/layer_norm", "deberta.encoder.LayerNorm"),
    ("convolution", "encoder/convolution/convolution", "deberta.encoder.conv.conv"),
    ("norm", "encoder/convolution/layer_norm", "deberta.encoder.conv.LayerNorm"),
    *in_layers(
        "deberta.encoder.layer.{i}.",
        ("dense", "attention/query", "attention.self.query_proj"),
        ("dense", "attention/key", "attention.self.key_proj"),
        ("dense", "attention/value", "attention.self.value_proj"),
        ("dense", "attention/position_key", "attention.self.pos_key_proj"),
        ("dense", "attention/position_query", "attention.self.pos_query_proj"),
        ("dense", "attention/position_key", "attention.self.pos_proj"),  # name in TensorFlow
        ("dense", "attention/position_query", "attention.self.pos_q_proj"),
        *bert.PARTS_OF_LAYER[3:],
    ),
)

# Tensors in the authors' files of v3. transformers has no class for this head.
_REPLACED_TOKEN = (
    ("norm", "replaced_token/layer_norm", "mask_predictions.LayerNorm"),
    ("dense", "replaced_token/hidden", "mask_predictions.dense"),
    ("dense", "replaced_token/logits", "mask_predictions.classifier"),
)

HUGGING_FACE_TASKS = deberta.HUGGING_FACE_TASKS | {
    "replaced_token": HeadSpec("ForPreTraining", _REPLACED_TOKEN),
    "multiple_choice": HeadSpec("ForMultipleChoice", deberta.CLASSIFIER, dropout=deberta.DROPOUT),
}
