"""Nomic BERT (Nussbaum et al. 2024, https://arxiv.org/abs/2402.01613).

BERT with rotary positions, gated feed-forward blocks (SwiGLU) and no biases in the layers.
"""

from collections.abc import Mapping
from typing import Any

from keras_bert.families import HeadSpec, bert, in_layers, jina_embeddings_v3

TRAITS: dict[str, Any] = {
    "family": "nomic_bert",
    "activation": "silu",
    "max_positions": 2048,
    "position_input": False,
    "pooler": False,
    "rotary_base": 1000.0,
    "gated": True,
    "attention_bias": False,
    "intermediate_bias": False,
    "output_bias": False,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
}

PRESETS: dict[str, dict[str, Any]] = {
    "nomic_bert_base": TRAITS | {"vocabulary_size": 30528} | bert.sizes(12, 768),
}

TEXT: dict[str, Any] = bert.TEXT

OBJECTIVES = ("mlm",)

PRETRAINING: dict[str, Any] = bert.PRETRAINING | {"masking_rate": 0.3}  # from memory

FINE_TUNING_RATES = bert.FINE_TUNING_RATES

HUGGING_FACE_CLASS = "NomicBert"
HUGGING_FACE_PREFIX = "nomic_bert."
HUGGING_FACE_OTHER_PREFIX = "bert."  # in the authors' files
HUGGING_FACE_CONFIG = jina_embeddings_v3.HUGGING_FACE_CONFIG
HUGGING_FACE_DEFAULTS = bert.HUGGING_FACE_DEFAULTS | {
    "vocab_size": 30528,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
}

# Names in the authors' own files.
HUGGING_FACE_SECOND_NAMES = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "layer_norm_epsilon": "layer_norm_eps",
}


def from_hugging_face(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts transformers' configuration like `jina_embeddings_v3.from_hugging_face`."""
    for name, value in (("prenorm", False), ("rotary_emb_fraction", 1.0)):
        if values.get(name, value) != value:
            raise ValueError(f"{name} {values[name]!r} is not supported, only {value!r} is")
    base = values.get("rotary_emb_base") or TRAITS["rotary_base"]
    return jina_embeddings_v3.from_hugging_face(values, base)


to_hugging_face = jina_embeddings_v3.to_hugging_face

HUGGING_FACE = (
    *((kind, ours, f"nomic_bert.{theirs}") for kind, ours, theirs in jina_embeddings_v3.TABLES),
    ("norm", "encoder/embeddings/layer_norm", "nomic_bert.emb_ln"),
    *in_layers(
        "nomic_bert.encoder.layers.{i}.",
        ("dense_1_of_3", "attention/query", "attn.Wqkv"),
        ("dense_2_of_3", "attention/key", "attn.Wqkv"),
        ("dense_3_of_3", "attention/value", "attn.Wqkv"),
        ("dense", "attention/output", "attn.out_proj"),
        ("norm", "attention_layer_norm", "norm1"),
        ("dense", "intermediate", "mlp.fc12"),
        ("dense", "gate", "mlp.fc11"),
        ("dense", "output", "mlp.fc2"),
        ("norm", "output_layer_norm", "norm2"),
    ),
    ("dense", "encoder/pooler/dense", "nomic_bert.pooler.dense"),
)
_MASKED_LM = tuple(
    (kind, ours, theirs.replace("LayerNorm", "layer_norm")) for kind, ours, theirs in bert.MASKED_LM
)
HEADS = {task: bert.HUGGING_FACE_TASKS[task] for task in ("classifier", "token_classifier")}
HUGGING_FACE_TASKS = {
    "encoder": HeadSpec("Model"),
    "masked_lm": HeadSpec("ForMaskedLM", _MASKED_LM),
    **HEADS,
}
