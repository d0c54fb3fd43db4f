"""MPNet (Song et al. 2020, https://arxiv.org/abs/2004.09297).

RoBERTa with a distance bias in attention and without segments. The vocabulary is BERT's, with
RoBERTa's special tokens. The size is published in github.com/microsoft/MPNet.
"""

from collections.abc import Mapping
from typing import Any

from keras_bert.families import HeadSpec, bert, in_layers, roberta

TRAITS: dict[str, Any] = roberta.TRAITS | {
    "family": "mpnet",
    "num_segments": 0,
    "bias_buckets": 32,
}

PRESETS: dict[str, dict[str, Any]] = {
    "mpnet_base": TRAITS | {"vocabulary_size": 30527} | bert.sizes(12, 768),
}

TEXT: dict[str, Any] = {
    "tokenizer": "wordpiece",
    "special_tokens": roberta.SPECIAL_TOKENS | {"unknown": "[UNK]"},
    "separators_in_pair": 2,
}

OBJECTIVES = ("mlm",)

PRETRAINING: dict[str, Any] = bert.PRETRAINING

FINE_TUNING_RATES = {768: 3e-5}  # as RoBERTa

HUGGING_FACE_CLASS = "MPNet"
HUGGING_FACE_PREFIX = "mpnet."
HUGGING_FACE_CONFIG = {
    ours: theirs
    for ours, theirs in bert.HUGGING_FACE_CONFIG.items()
    if ours not in ("num_segments", "classifier_dropout")
}
HUGGING_FACE_DEFAULTS = bert.HUGGING_FACE_DEFAULTS | {
    "vocab_size": 30527,
    "max_position_embeddings": 512,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 1,
}
HUGGING_FACE_FIXED: dict[str, Any] = {"relative_attention_num_buckets": 32}


def from_hugging_face(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns transformers' configuration, without the positions before the first."""
    longest = values["max_position_embeddings"] - TRAITS["position_offset"]
    return {**values, "max_position_embeddings": longest}


def to_hugging_face(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration with transformers' values."""
    longest = values["max_position_embeddings"] + TRAITS["position_offset"]
    return {**values, "max_position_embeddings": longest}


_EMBEDDINGS = (row for row in bert.EMBEDDINGS if not row[1].endswith("segment_embedding"))
HUGGING_FACE = (
    *((kind, ours, f"mpnet.{theirs}") for kind, ours, theirs in _EMBEDDINGS),
    ("table", "encoder/distance_bias/table", "mpnet.encoder.relative_attention_bias"),
    *in_layers(
        "mpnet.encoder.layer.{i}.",
        ("dense", "attention/query", "attention.attn.q"),
        ("dense", "attention/key", "attention.attn.k"),
        ("dense", "attention/value", "attention.attn.v"),
        ("dense", "attention/output", "attention.attn.o"),
        ("norm", "attention_layer_norm", "attention.LayerNorm"),
        *bert.PARTS_OF_LAYER[5:],
    ),
    ("dense", "encoder/pooler/dense", "mpnet.pooler.dense"),
)

HUGGING_FACE_TASKS = {
    "encoder": HeadSpec("Model"),
    "classifier": HeadSpec("ForSequenceClassification", roberta.CLASSIFIER),
    "masked_lm": roberta.HUGGING_FACE_TASKS["masked_lm"],
    "multiple_choice": HeadSpec("ForMultipleChoice", bert.CLASSIFIER, pooled=True),
    "span_classifier": HeadSpec("ForQuestionAnswering", bert.SPAN),
    "token_classifier": HeadSpec("ForTokenClassification", bert.CLASSIFIER),
}
