"""XLM-R XL and XXL (Goyal et al. 2021, https://arxiv.org/abs/2105.00572).

XLM-R that normalizes before each block and after the last.
"""

from typing import Any

from keras_bert.families import bert, in_layers, roberta, xlm_roberta

TRAITS: dict[str, Any] = xlm_roberta.TRAITS | {
    "family": "xlm-roberta-xl",
    "pre_norm": True,
    "embedding_norm": False,
}

PRESETS: dict[str, dict[str, Any]] = {
    name: TRAITS | {"vocabulary_size": 250880} | bert.sizes(*size) | {"num_heads": 32}
    for name, size in {"xlm_roberta_xl": (36, 2560), "xlm_roberta_xxl": (48, 4096)}.items()
}

TEXT: dict[str, Any] = xlm_roberta.TEXT

OBJECTIVES = xlm_roberta.OBJECTIVES

PRETRAINING: dict[str, Any] = xlm_roberta.PRETRAINING

FINE_TUNING_RATES = {2560: 5e-6, 4096: 5e-6}  # chosen below those of smaller models, not tried

HUGGING_FACE_CLASS = "XLMRobertaXL"
HUGGING_FACE_PREFIX = roberta.HUGGING_FACE_PREFIX
HUGGING_FACE_CONFIG = roberta.HUGGING_FACE_CONFIG
HUGGING_FACE_DEFAULTS = roberta.HUGGING_FACE_DEFAULTS | {
    "vocab_size": 250880,
    "hidden_size": 2560,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "intermediate_size": 10240,
    "max_position_embeddings": 514,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
}
from_hugging_face = roberta.from_hugging_face
to_hugging_face = roberta.to_hugging_face

HUGGING_FACE = (
    *((kind, ours, f"roberta.{theirs}") for kind, ours, theirs in bert.EMBEDDINGS[:3]),
    *in_layers(
        "roberta.encoder.layer.{i}.",
        *(row for row in bert.PARTS_OF_LAYER if row[0] == "dense"),
        ("norm", "attention_layer_norm", "attention.self_attn_layer_norm"),
        ("norm", "output_layer_norm", "LayerNorm"),
    ),
    ("norm", "encoder/final_layer_norm", "roberta.encoder.LayerNorm"),
    ("dense", "encoder/pooler/dense", "roberta.pooler.dense"),
)

HUGGING_FACE_TASKS = roberta.HUGGING_FACE_TASKS
