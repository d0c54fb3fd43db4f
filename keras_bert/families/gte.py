"""GTE (Zhang et al. 2024, https://arxiv.org/abs/2407.19669).

BERT with rotary positions and gated feed-forward blocks (GEGLU).
"""

import functools
from typing import Any

from keras_bert.families import HeadSpec, bert, in_layers, jina_embeddings_v3, nomic_bert, roberta

TRAITS: dict[str, Any] = {
    "family": "gte",
    "max_positions": 8192,
    "position_input": False,
    "pooler": False,
    "num_segments": 1,
    "rotary_base": 160000.0,
    "gated": True,
    "intermediate_bias": False,
    "attention_dropout": 0.0,
}

PRESETS: dict[str, dict[str, Any]] = {
    "gte_multilingual_base": TRAITS | {"vocabulary_size": 250048} | bert.sizes(12, 768),
}

TEXT: dict[str, Any] = roberta.TEXT | {"tokenizer": "sentencepiece"}

OBJECTIVES = ("mlm",)

PRETRAINING: dict[str, Any] = bert.PRETRAINING | {"masking_rate": 0.3}  # from memory

FINE_TUNING_RATES = bert.FINE_TUNING_RATES

MAY_BE_ZERO = ("num_segments",)  # although the value in `TRAITS` is not

HUGGING_FACE_CLASS = "Gte"
HUGGING_FACE_PREFIX = "gte."
HUGGING_FACE_OTHER_PREFIX = "new."  # in the authors' files
HUGGING_FACE_CONFIG = jina_embeddings_v3.HUGGING_FACE_CONFIG
HUGGING_FACE_DEFAULTS = bert.HUGGING_FACE_DEFAULTS | {
    "vocab_size": 250048,
    "max_position_embeddings": 8192,
    "type_vocab_size": 1,
    "pad_token_id": 1,
}

from_hugging_face = functools.partial(
    jina_embeddings_v3.from_hugging_face, base=TRAITS["rotary_base"]
)
to_hugging_face = jina_embeddings_v3.to_hugging_face

HUGGING_FACE = (
    *((kind, ours, f"gte.{theirs}") for kind, ours, theirs in jina_embeddings_v3.TABLES),
    ("norm", "encoder/embeddings/layer_norm", "gte.embeddings.LayerNorm"),
    *in_layers(
        "gte.encoder.layer.{i}.",
        ("dense_1_of_3", "attention/query", "attention.qkv_proj"),
        ("dense_2_of_3", "attention/key", "attention.qkv_proj"),
        ("dense_3_of_3", "attention/value", "attention.qkv_proj"),
        ("dense", "attention/output", "attention.o_proj"),
        ("norm", "attention_layer_norm", "attn_ln"),
        ("dense_1_of_2", "gate", "mlp.up_gate_proj"),
        ("dense_2_of_2", "intermediate", "mlp.up_gate_proj"),
        ("dense", "output", "mlp.down_proj"),
        ("norm", "output_layer_norm", "mlp_ln"),
    ),
    ("dense", "encoder/pooler/dense", "gte.pooler.dense"),
)
_MASKED_LM = (
    ("dense", "masked_lm/transform", "lm_head.dense"),
    ("norm", "masked_lm/layer_norm", "lm_head.norm"),
    ("vector", "masked_lm/bias", "lm_head.decoder.bias"),
    ("table", "masked_lm/decoder", "lm_head.decoder"),
)
HUGGING_FACE_TASKS = {
    "encoder": HeadSpec("Model"),
    "masked_lm": HeadSpec("ForMaskedLM", _MASKED_LM, arguments={"activation": "gelu"}),
    **nomic_bert.HEADS,
}
