"""Jina embeddings v3 (Sturua et al. 2024, https://arxiv.org/abs/2409.10173).

XLM-R with rotary positions. The adapters of the tasks are not read: the reference in transformers
has none.
"""

from collections.abc import Mapping
from typing import Any

from keras_bert.families import bert, in_layers, roberta, rotary_base

TRAITS: dict[str, Any] = roberta.TRAITS | {
    "family": "jina_embeddings_v3",
    "position_input": False,
    "position_offset": 0,
    "rotary_base": 20000.0,
    "max_positions": 8194,
}

PRESETS: dict[str, dict[str, Any]] = {
    "jina_embeddings_v3": TRAITS | {"vocabulary_size": 250002} | bert.sizes(24, 1024),
}

TEXT: dict[str, Any] = roberta.TEXT | {"tokenizer": "sentencepiece"}

OBJECTIVES = ("mlm",)

PRETRAINING: dict[str, Any] = roberta.PRETRAINING

FINE_TUNING_RATES = roberta.FINE_TUNING_RATES

HUGGING_FACE_CLASS = "JinaEmbeddingsV3"
HUGGING_FACE_PREFIX = roberta.HUGGING_FACE_PREFIX
HUGGING_FACE_CONFIG = bert.HUGGING_FACE_CONFIG | {"rotary_base": "rope_parameters"}
HUGGING_FACE_DEFAULTS = bert.HUGGING_FACE_DEFAULTS | {
    "vocab_size": 250002,
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "max_position_embeddings": 8194,
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
}


def from_hugging_face(
    values: Mapping[str, Any], base: float = TRAITS["rotary_base"]
) -> dict[str, Any]:
    """Converts the values of `config.json` to values of an `EncoderConfig`, under their names.

    Args:
        values: the configuration.
        base: the family's base of rotary positions.

    Raises:
        ValueError: if an `EncoderConfig` cannot express the configuration.
    """
    return {**values, "rope_parameters": rotary_base(values, base)}


def to_hugging_face(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration with transformers' values."""
    rope = {"rope_type": "default", "rope_theta": values["rope_parameters"]}
    return {**values, "rope_parameters": rope}


TABLES = (bert.EMBEDDINGS[0], bert.EMBEDDINGS[1])
HUGGING_FACE = (
    *((kind, ours, f"roberta.{theirs}") for kind, ours, theirs in TABLES),
    ("norm", "encoder/embeddings/layer_norm", "roberta.emb_ln"),
    *in_layers(
        "roberta.encoder.layers.{i}.",
        ("dense_1_of_3", "attention/query", "mixer.Wqkv"),
        ("dense_2_of_3", "attention/key", "mixer.Wqkv"),
        ("dense_3_of_3", "attention/value", "mixer.Wqkv"),
        ("dense", "attention/output", "mixer.out_proj"),
        ("norm", "attention_layer_norm", "norm1"),
        ("dense", "intermediate", "mlp.fc1"),
        ("dense", "output", "mlp.fc2"),
        ("norm", "output_layer_norm", "norm2"),
    ),
    ("dense", "encoder/pooler/dense", "roberta.pooler.dense"),
)

HUGGING_FACE_TASKS = {
    task: head
    for task, head in roberta.HUGGING_FACE_TASKS.items()
    if task != "multiple_choice"  # transformers has no such class
}
