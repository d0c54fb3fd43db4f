"""ELECTRA (Clark et al. 2020, https://arxiv.org/abs/2003.10555).

A small masked language model, the generator, replaces tokens. The discriminator learns which tokens
were replaced. Both share their embeddings. Their sizes are published in
github.com/google-research/electra.
"""

from typing import Any

from keras_bert.families import HeadSpec, bert, roberta

TRAITS: dict[str, Any] = {
    "family": "electra",
    "pooler": False,
    "classifier_activation": "gelu",
    "classifier_input_dropout": True,
}

PRESETS: dict[str, dict[str, Any]] = {
    name: {
        **TRAITS,
        "vocabulary_size": 30522,
        "embedding_size": embedding_size,
        **bert.sizes(num_layers, hidden_size),
    }
    for name, (num_layers, hidden_size, embedding_size) in {
        "electra_small": (12, 256, 128),
        "electra_base": (12, 768, 768),
        "electra_large": (24, 1024, 1024),
        "electra_small_generator": (12, 256, 128),
        "electra_base_generator": (12, 256, 768),
        "electra_large_generator": (24, 256, 1024),
    }.items()
}

TEXT: dict[str, Any] = bert.TEXT

OBJECTIVES = ("rtd", "mlm")

PRETRAINING: dict[str, Any] = bert.PRETRAINING

FINE_TUNING_RATES = {256: 3e-4, 768: 1e-4, 1024: 5e-5}  # of the paper (appendix B)

HUGGING_FACE_CLASS = "Electra"
HUGGING_FACE_PREFIX = "electra."
HUGGING_FACE_CONFIG = bert.HUGGING_FACE_CONFIG | {"embedding_size": "embedding_size"}
HUGGING_FACE_DEFAULTS = bert.HUGGING_FACE_DEFAULTS | {
    "embedding_size": 128,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "summary_last_dropout": 0.1,
}

HUGGING_FACE = (
    *((kind, ours, f"electra.{theirs}") for kind, ours, theirs in (*bert.EMBEDDINGS, *bert.LAYERS)),
    ("dense", "encoder/projection", "electra.embeddings_project"),
)
_MASKED_LM = (
    ("dense", "masked_lm/transform", "generator_predictions.dense"),
    ("norm", "masked_lm/layer_norm", "generator_predictions.LayerNorm"),
    ("vector", "masked_lm/bias", "generator_lm_head.bias"),
    ("table", "masked_lm/decoder", "generator_lm_head"),
)
_REPLACED_TOKEN = (
    ("dense", "replaced_token/hidden", "discriminator_predictions.dense"),
    ("dense", "replaced_token/logits", "discriminator_predictions.dense_prediction"),
)
_CHOICE = (("dense", "classifier/hidden", "sequence_summary.summary"), *bert.CLASSIFIER)
_SUMMARY = {"summary_type": "first", "summary_use_proj": True, "summary_activation": "gelu"}
_DROPOUT = "classifier_dropout"

HUGGING_FACE_TASKS = {
    "encoder": HeadSpec("Model"),
    "classifier": HeadSpec("ForSequenceClassification", roberta.CLASSIFIER, dropout=_DROPOUT),
    "masked_lm": HeadSpec("ForMaskedLM", _MASKED_LM, arguments={"activation": "gelu"}),
    "multiple_choice": HeadSpec(
        "ForMultipleChoice", _CHOICE, dropout="summary_last_dropout", fixed=_SUMMARY
    ),
    "replaced_token": HeadSpec("ForPreTraining", _REPLACED_TOKEN),
    "span_classifier": HeadSpec("ForQuestionAnswering", bert.SPAN),
    "token_classifier": HeadSpec("ForTokenClassification", bert.CLASSIFIER, dropout=_DROPOUT),
}
