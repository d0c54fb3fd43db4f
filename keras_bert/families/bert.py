"""BERT (Devlin et al. 2018) and Google's compact models (Turc et al. 2019).

https://arxiv.org/abs/1810.04805 and https://arxiv.org/abs/1908.08962. The sizes are published in
github.com/google-research/bert. The English uncased vocabulary has 30522 tokens.
"""

from typing import Any

from keras_bert.families import HeadSpec, in_layers

# Fields of the `EncoderConfig` that are the same for all models of the family.
TRAITS: dict[str, Any] = {"family": "bert"}

_SIZES = {  # layers, hidden size
    "bert_tiny": (2, 128),
    "bert_mini": (4, 256),
    "bert_small": (4, 512),
    "bert_medium": (8, 512),
    "bert_base": (12, 768),
    "bert_large": (24, 1024),
}


def sizes(num_layers: int, hidden_size: int) -> dict[str, int]:
    """Returns all sizes of a model, given the number of layers and the hidden size."""
    return {
        "num_layers": num_layers,
        "hidden_size": hidden_size,
        "num_heads": hidden_size // 64,
        "intermediate_size": 4 * hidden_size,
    }


PRESETS: dict[str, dict[str, Any]] = {
    name: TRAITS | {"vocabulary_size": 30522} | sizes(*size) for name, size in _SIZES.items()
}

# Kind of tokenizer and special tokens of the family.
TEXT: dict[str, Any] = {
    "tokenizer": "wordpiece",
    "special_tokens": {
        "pad": "[PAD]",
        "unknown": "[UNK]",
        "cls": "[CLS]",
        "separator": "[SEP]",
        "mask": "[MASK]",
    },
    "separators_in_pair": 1,
}

# Supported objectives of pretraining. The first one is the authors' objective.
OBJECTIVES = ("mlm+nsp", "mlm")

# Options of the authors' pretraining, which are the defaults of a `PretrainingConfig`.
_ROWS = {"across_documents": False, "packed": False}
PRETRAINING: dict[str, Any] = {"masking": "token", "masking_rate": 0.15} | _ROWS

# Learning rates for fine-tuning, by hidden size. The base model has the paper's largest rate
# (section A.3). The large model has the smallest rate, because its training sometimes fails at
# larger rates.
FINE_TUNING_RATES = {768: 5e-5, 1024: 2e-5}

# Names in Hugging Face's transformers: of classes, of the configuration's fields and of the
# encoder's tensors. A field without a name here has the value in `TRAITS` or its default.
HUGGING_FACE_CLASS = "Bert"
HUGGING_FACE_PREFIX = "bert."
HUGGING_FACE_CONFIG = {
    "vocabulary_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "activation": "hidden_act",
    "layer_norm_epsilon": "layer_norm_eps",
    "max_positions": "max_position_embeddings",
    "num_segments": "type_vocab_size",
    "classifier_dropout": "classifier_dropout",
    "hidden_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "initializer_range": "initializer_range",
}
HUGGING_FACE_DEFAULTS = {  # for fields that a configuration lacks
    HUGGING_FACE_CONFIG[n]: size for n, size in PRESETS["bert_base"].items() if n != "family"
}

# Names of tensors in other libraries. A row is a kind, this package's name and the other library's
# name. A format defines the tensors of each kind (`keras_bert.checkpoints.mapping`). {i} is the
# layer's index.
_EMBEDDINGS = "encoder/embeddings"

PARTS_OF_LAYER = (
    ("dense", "attention/query", "attention.self.query"),
    ("dense", "attention/key", "attention.self.key"),
    ("dense", "attention/value", "attention.self.value"),
    ("dense", "attention/output", "attention.output.dense"),
    ("norm", "attention_layer_norm", "attention.output.LayerNorm"),
    ("dense", "intermediate", "intermediate.dense"),
    ("dense", "output", "output.dense"),
    ("norm", "output_layer_norm", "output.LayerNorm"),
)
EMBEDDINGS = (
    ("table", f"{_EMBEDDINGS}/token_embedding", "embeddings.word_embeddings"),
    ("table", f"{_EMBEDDINGS}/segment_embedding", "embeddings.token_type_embeddings"),
    ("table", f"{_EMBEDDINGS}/position_embedding", "embeddings.position_embeddings"),
    ("norm", f"{_EMBEDDINGS}/layer_norm", "embeddings.LayerNorm"),
)
LAYERS = in_layers("encoder.layer.{i}.", *PARTS_OF_LAYER)
HUGGING_FACE = (
    *((kind, ours, f"bert.{theirs}") for kind, ours, theirs in (*EMBEDDINGS, *LAYERS)),
    ("dense", "encoder/pooler/dense", "bert.pooler.dense"),
)
_TRANSFORM = (
    ("dense", "masked_lm/transform", "cls.predictions.transform.dense"),
    ("norm", "masked_lm/layer_norm", "cls.predictions.transform.LayerNorm"),
)
MASKED_LM = (
    *_TRANSFORM,
    ("vector", "masked_lm/bias", "cls.predictions.bias"),
    ("table", "masked_lm/decoder", "cls.predictions.decoder"),
)
_NEXT_SENTENCE = (("dense", "next_sentence/logits", "cls.seq_relationship"),)
CLASSIFIER = (("dense", "classifier/logits", "classifier"),)
SPAN = (("dense", "span/logits", "qa_outputs"),)
_DROPOUT = "classifier_dropout"

HUGGING_FACE_TASKS = {
    "encoder": HeadSpec("Model"),
    "classifier": HeadSpec("ForSequenceClassification", CLASSIFIER, True, _DROPOUT),
    "masked_lm": HeadSpec("ForMaskedLM", MASKED_LM),
    "multiple_choice": HeadSpec("ForMultipleChoice", CLASSIFIER, True, _DROPOUT),
    "next_sentence": HeadSpec("ForNextSentencePrediction", _NEXT_SENTENCE, True),
    "pretraining": HeadSpec("ForPreTraining", (*MASKED_LM, *_NEXT_SENTENCE), True),
    "span_classifier": HeadSpec("ForQuestionAnswering", SPAN),
    "token_classifier": HeadSpec("ForTokenClassification", CLASSIFIER, dropout=_DROPOUT),
}

# Google's own code, github.com/google-research/bert; the heads end in output_weights, output_bias.
GOOGLE = (
    *(
        (kind, ours, theirs.replace("layer.{i}", "layer_{i}").replace(".", "/"))
        for kind, ours, theirs in (*HUGGING_FACE, *_TRANSFORM)
    ),
    ("vector", "masked_lm/bias", "cls/predictions/output_bias"),
    ("output", "next_sentence/logits", "cls/seq_relationship/"),
    ("output", "classifier/logits", ""),
    ("output", "span/logits", "cls/squad/"),
)

# TF Model Garden, with the short names of `keras_bert.checkpoints.google`. If a tensor has two
# names, the first name in the file counts. The word embedding may be saved with the head that
# shares it, and the trained pooler with the next sentence head.
MODEL_GARDEN = (
    ("table", f"{_EMBEDDINGS}/token_embedding", "word/embeddings"),
    ("table", f"{_EMBEDDINGS}/token_embedding", "masked_lm/embedding_table"),
    ("table", f"{_EMBEDDINGS}/segment_embedding", "type/embeddings"),
    ("table", f"{_EMBEDDINGS}/position_embedding", "position/embeddings"),
    ("norm", f"{_EMBEDDINGS}/layer_norm", "norm"),
    *in_layers(
        "layer_{i}/",
        ("heads_in", "attention/query", "_attention_layer/_query_dense"),
        ("heads_in", "attention/key", "_attention_layer/_key_dense"),
        ("heads_in", "attention/value", "_attention_layer/_value_dense"),
        ("heads_out", "attention/output", "_attention_layer/_output_dense"),
        ("heads_out", "attention/output", "_attention_output_dense"),  # up to v2.3
        ("norm", "attention_layer_norm", "_attention_layer_norm"),
        ("dense", "intermediate", "_intermediate_dense"),
        ("dense", "output", "_output_dense"),
        ("norm", "output_layer_norm", "_output_layer_norm"),
    ),
    ("dense", "encoder/pooler/dense", "next_sentence..pooler_dense"),
    ("dense", "encoder/pooler/dense", "pooler"),
    ("dense", "masked_lm/transform", "masked_lm/dense"),
    ("norm", "masked_lm/layer_norm", "masked_lm/layer_norm"),
    ("vector", "masked_lm/bias", "masked_lm/output_bias.Sbias"),
    ("dense", "next_sentence/logits", "classification_heads/0/out_proj"),
)

KERAS_HUB = (
    ("table", f"{_EMBEDDINGS}/token_embedding", "token_embedding"),
    ("table", f"{_EMBEDDINGS}/segment_embedding", "segment_embedding"),
    ("table", f"{_EMBEDDINGS}/position_embedding", "position_embedding"),
    ("norm", f"{_EMBEDDINGS}/layer_norm", "embeddings_layer_norm"),
    *in_layers(
        "transformer_layer_{i}/",
        ("heads_in", "attention/query", "self_attention_layer/query"),
        ("heads_in", "attention/key", "self_attention_layer/key"),
        ("heads_in", "attention/value", "self_attention_layer/value"),
        ("heads_out", "attention/output", "self_attention_layer/attention_output"),
        ("norm", "attention_layer_norm", "self_attention_layer_norm"),
        ("dense", "intermediate", "feedforward_intermediate_dense"),
        ("dense", "output", "feedforward_output_dense"),
        ("norm", "output_layer_norm", "feedforward_layer_norm"),
    ),
    ("dense", "encoder/pooler/dense", "pooled_dense"),
    ("dense", "masked_lm/transform", "mlm_head/intermediate_dense"),
    ("norm", "masked_lm/layer_norm", "mlm_head/intermediate_layer_norm"),
    ("vector", "masked_lm/bias", "mlm_head/output_bias"),
    ("dense", "classifier/logits", "logits"),
)
