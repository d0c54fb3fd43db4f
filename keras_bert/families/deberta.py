"""DeBERTa (He et al. 2020, https://arxiv.org/abs/2006.03654).

Attention has separate terms for content and relative positions. Absolute positions are added in the
mask decoder, not in the input. The sizes are published in github.com/microsoft/DeBERTa.
"""

from collections.abc import Mapping
from typing import Any

from keras_bert.families import HeadSpec, Row, bert, in_layers

TRAITS: dict[str, Any] = {
    "family": "deberta",
    "layer_norm_epsilon": 1e-7,
    "position_input": False,
    "projection_first": True,
    "num_segments": 0,
    "pooler": False,
    "classifier_activation": "gelu",
    "key_bias": False,
    "relative_positions": 512,
}

PRESETS: dict[str, dict[str, Any]] = {
    name: TRAITS | {"vocabulary_size": 50265} | bert.sizes(*size)
    for name, size in {
        "deberta_base": (12, 768),
        "deberta_large": (24, 1024),
        "deberta_xlarge": (48, 1024),
    }.items()
}

TEXT: dict[str, Any] = bert.TEXT | {"tokenizer": "byte_pair"}

OBJECTIVES = ("mlm",)

PRETRAINING: dict[str, Any] = bert.PRETRAINING | {"masking": "ngram"}  # appendix A.3

FINE_TUNING_RATES = {768: 2e-5, 1024: 1e-5, 1536: 5e-6}  # within the papers' ranges

HUGGING_FACE_CLASS = "Deberta"
HUGGING_FACE_PREFIX = "deberta."
HUGGING_FACE_CONFIG = bert.HUGGING_FACE_CONFIG | {
    "embedding_size": "embedding_size",
    "position_input": "position_biased_input",
    "relative_positions": "max_relative_positions",
    "position_terms": "pos_att_type",
    "classifier_activation": "pooler_hidden_act",
    "classifier_dropout": "cls_dropout",
}
HUGGING_FACE_DEFAULTS = bert.HUGGING_FACE_DEFAULTS | {
    "vocab_size": 50265,
    "max_position_embeddings": 512,
    "max_relative_positions": -1,
    "position_biased_input": True,
    "pos_att_type": [],
}
HUGGING_FACE_FIXED: dict[str, Any] = {"talking_head": False}


def from_hugging_face(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the values of `config.json` to values of an `EncoderConfig`, under their names.

    Raises:
        ValueError: if an `EncoderConfig` cannot express the configuration.
    """
    terms, longest = values["pos_att_type"], values["max_relative_positions"]
    if isinstance(terms, str):
        terms = [term.strip() for term in terms.lower().split("|")]
    if longest < 1:
        longest = values["max_position_embeddings"]
    if not values.get("relative_attention"):
        if terms:
            raise ValueError(f"pos_att_type {terms} without relative_attention is not supported")
        longest = 0
    return {**values, "max_relative_positions": longest, "pos_att_type": terms}


def to_hugging_face(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration with transformers' values."""
    longest, most = values["max_relative_positions"], values["max_position_embeddings"]
    return {
        **values,
        "relative_attention": longest > 0,
        "max_relative_positions": longest if 0 < longest != most else -1,
        "pos_att_type": list(values["pos_att_type"]) if longest else None,
    }


EMBEDDINGS: tuple[Row, ...] = (
    *((kind, ours, f"deberta.{theirs}") for kind, ours, theirs in bert.EMBEDDINGS),
    ("dense", "encoder/embeddings/projection", "deberta.embeddings.embed_proj"),
    ("table", "encoder/relative_positions/table", "deberta.encoder.rel_embeddings"),
)
HUGGING_FACE = (
    *EMBEDDINGS,
    *in_layers(
        "deberta.encoder.layer.{i}.",
        ("query_key_value", "attention", "attention.self"),
        ("dense", "attention/position_key", "attention.self.pos_proj"),
        ("dense", "attention/position_query", "attention.self.pos_q_proj"),
        *bert.PARTS_OF_LAYER[3:],
    ),
)
_MASKED_LM = (
    *bert.MASKED_LM,
    ("table", "masked_lm/position_embedding", "deberta.embeddings.position_embeddings"),
)
# Names of the head in the authors' files, and in transformers if a model is not `legacy`.
HUGGING_FACE_OTHER_NAMES = {
    "cls.predictions.transform.dense": "lm_predictions.lm_head.dense",
    "cls.predictions.transform.LayerNorm": "lm_predictions.lm_head.LayerNorm",
    "cls.predictions.bias": "lm_predictions.lm_head.bias",
}
CLASSIFIER = (("dense", "classifier/hidden", "pooler.dense"), *bert.CLASSIFIER)
DROPOUT = "cls_dropout"

HUGGING_FACE_TASKS = {
    "encoder": HeadSpec("Model"),
    "classifier": HeadSpec("ForSequenceClassification", CLASSIFIER, dropout=DROPOUT),
    "masked_lm": HeadSpec("ForMaskedLM", _MASKED_LM),
    "span_classifier": HeadSpec("ForQuestionAnswering", bert.SPAN),
    "token_classifier": HeadSpec("ForTokenClassification", bert.CLASSIFIER),
}
