"""DistilBERT (Sanh et al. 2019, https://arxiv.org/abs/1910.01108).

The model has half of BERT's layers, and no segments and no pooler. It was distilled from BERT. The
published models differ in their vocabularies: 30522 tokens uncased, 28996 cased, 119547
multilingual.
"""

from typing import Any

from keras_bert.families import HeadSpec, bert, in_layers

TRAITS: dict[str, Any] = {
    "family": "distilbert",
    "layer_norm_epsilon": 1e-12,
    "num_segments": 0,
    "pooler": False,
    "classifier_activation": "relu",
    "classifier_dropout": 0.2,
}

PRESETS: dict[str, dict[str, Any]] = {
    name: TRAITS | {"vocabulary_size": vocabulary_size} | bert.sizes(6, 768)
    for name, vocabulary_size in (
        ("distilbert_base", 30522),
        ("distilbert_base_cased", 28996),
        ("distilbert_base_multilingual", 119547),
    )
}

TEXT: dict[str, Any] = bert.TEXT

OBJECTIVES = ("distillation", "mlm")

PRETRAINING: dict[str, Any] = bert.PRETRAINING

FINE_TUNING_RATES = bert.FINE_TUNING_RATES

HUGGING_FACE_CLASS = "DistilBert"
HUGGING_FACE_PREFIX = "distilbert."
HUGGING_FACE_CONFIG = {
    "vocabulary_size": "vocab_size",
    "hidden_size": "dim",
    "num_layers": "n_layers",
    "num_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "activation": "activation",
    "max_positions": "max_position_embeddings",
    "classifier_dropout": "seq_classif_dropout",
    "hidden_dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "initializer_range": "initializer_range",
}
HUGGING_FACE_DEFAULTS: dict[str, Any] = {
    "vocab_size": 30522,
    "dim": 768,
    "n_layers": 6,
    "n_heads": 12,
    "hidden_dim": 3072,
    "qa_dropout": 0.1,
}
# BERT's names of the fields, which transformers accepts, too (its `attribute_map`).
HUGGING_FACE_SECOND_NAMES = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
}

HUGGING_FACE = (
    *((kind, ours, f"distilbert.{theirs}") for kind, ours, theirs in bert.EMBEDDINGS),
    *in_layers(
        "distilbert.transformer.layer.{i}.",
        ("dense", "attention/query", "attention.q_lin"),
        ("dense", "attention/key", "attention.k_lin"),
        ("dense", "attention/value", "attention.v_lin"),
        ("dense", "attention/output", "attention.out_lin"),
        ("norm", "attention_layer_norm", "sa_layer_norm"),
        ("dense", "intermediate", "ffn.lin1"),
        ("dense", "output", "ffn.lin2"),
        ("norm", "output_layer_norm", "output_layer_norm"),
    ),
)
_MASKED_LM = (
    ("dense", "masked_lm/transform", "vocab_transform"),
    ("norm", "masked_lm/layer_norm", "vocab_layer_norm"),
    ("vector", "masked_lm/bias", "vocab_projector.bias"),
    ("table", "masked_lm/decoder", "vocab_projector"),
)
_CLASSIFIER = (("dense", "classifier/hidden", "pre_classifier"), *bert.CLASSIFIER)
_DROPOUT = "seq_classif_dropout"

HUGGING_FACE_TASKS = {
    "encoder": HeadSpec("Model"),
    "classifier": HeadSpec("ForSequenceClassification", _CLASSIFIER, dropout=_DROPOUT),
    "masked_lm": HeadSpec("ForMaskedLM", _MASKED_LM),
    "multiple_choice": HeadSpec("ForMultipleChoice", _CLASSIFIER, dropout=_DROPOUT),
    "span_classifier": HeadSpec("ForQuestionAnswering", bert.SPAN, dropout="qa_dropout"),
    "token_classifier": HeadSpec("ForTokenClassification", bert.CLASSIFIER),
}
