"""RoBERTa (Liu et al. 2019, https://arxiv.org/abs/1907.11692) and DistilRoBERTa.

The first position has the row after the padding's row in the position table. There are no segments
and no second objective. In place of the pooler, the head of a classifier has its own dense layer.
"""

from collections.abc import Mapping
from typing import Any

from keras_bert.families import HeadSpec, bert

TRAITS: dict[str, Any] = {
    "family": "roberta",
    "layer_norm_epsilon": 1e-5,
    "max_positions": 512,
    "position_offset": 2,
    "num_segments": 1,
    "classifier_activation": "tanh",
    "classifier_input_dropout": True,
}

PRESETS: dict[str, dict[str, Any]] = {
    "roberta_base": TRAITS | {"vocabulary_size": 50265} | bert.sizes(12, 768),
    "roberta_large": TRAITS | {"vocabulary_size": 50265} | bert.sizes(24, 1024),
    "distilroberta_base": TRAITS | {"vocabulary_size": 50265} | bert.sizes(6, 768),
}

SPECIAL_TOKENS = {
    "pad": "<pad>",
    "unknown": "<unk>",
    "cls": "<s>",
    "separator": "</s>",
    "mask": "<mask>",
}
TEXT: dict[str, Any] = {
    "tokenizer": "byte_pair",
    "special_tokens": SPECIAL_TOKENS,
    "separators_in_pair": 2,
}

OBJECTIVES = ("mlm",)

PRETRAINING: dict[str, Any] = bert.PRETRAINING | {"across_documents": True}

FINE_TUNING_RATES = {768: 3e-5, 1024: 2e-5}  # the paper tries 1e-5 to 3e-5 (table 10)

HUGGING_FACE_CLASS = "Roberta"
HUGGING_FACE_PREFIX = "roberta."
HUGGING_FACE_CONFIG = bert.HUGGING_FACE_CONFIG | {"position_offset": "pad_token_id"}
# transformers' default number of segments and epsilon differ from the published models.
HUGGING_FACE_DEFAULTS = bert.HUGGING_FACE_DEFAULTS | {
    "vocab_size": 50265,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 1,
}
HUGGING_FACE_TENSORFLOW = {"pad_token_id": 1}  # TensorFlow's classes ignore the configuration's


def from_hugging_face(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the values of `config.json` to values of an `EncoderConfig`, under their names.

    In the result, `pad_token_id` is the `position_offset`, and `max_position_embeddings` does not
    count the rows before the first position.
    """
    offset = values["pad_token_id"] + 1
    longest = values["max_position_embeddings"] - offset
    return {**values, "pad_token_id": offset, "max_position_embeddings": longest}


def to_hugging_face(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration with transformers' values."""
    offset, longest = values["pad_token_id"], values["max_position_embeddings"]
    return {**values, "pad_token_id": offset - 1, "max_position_embeddings": longest + offset}


HUGGING_FACE = (
    *((kind, ours, f"roberta.{theirs}") for kind, ours, theirs in (*bert.EMBEDDINGS, *bert.LAYERS)),
    ("dense", "encoder/pooler/dense", "roberta.pooler.dense"),
)
_MASKED_LM = (
    ("dense", "masked_lm/transform", "lm_head.dense"),
    ("norm", "masked_lm/layer_norm", "lm_head.layer_norm"),
    ("vector", "masked_lm/bias", "lm_head.bias"),
    ("table", "masked_lm/decoder", "lm_head.decoder"),
)
CLASSIFIER = (
    ("dense", "classifier/hidden", "classifier.dense"),
    ("dense", "classifier/logits", "classifier.out_proj"),
)
_DROPOUT = "classifier_dropout"

HUGGING_FACE_TASKS = {
    "encoder": HeadSpec("Model"),
    "classifier": HeadSpec("ForSequenceClassification", CLASSIFIER, dropout=_DROPOUT),
    "masked_lm": HeadSpec("ForMaskedLM", _MASKED_LM, arguments={"activation": "gelu"}),
    "multiple_choice": HeadSpec("ForMultipleChoice", bert.CLASSIFIER, pooled=True),
    "span_classifier": HeadSpec("ForQuestionAnswering", bert.SPAN),
    "token_classifier": HeadSpec("ForTokenClassification", bert.CLASSIFIER, dropout=_DROPOUT),
}
