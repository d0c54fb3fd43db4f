"""Megatron-BERT (Shoeybi et al. 2019, https://arxiv.org/abs/1909.08053).

BERT that normalizes before each block and after the last. The rate for fine-tuning is
from memory.
"""

from typing import Any

from keras_bert.families import bert, in_layers

TRAITS: dict[str, Any] = {
    "family": "megatron-bert",
    "pre_norm": True,
    "embedding_norm": False,
}

PRESETS: dict[str, dict[str, Any]] = {
    "megatron_bert_345m": TRAITS | {"vocabulary_size": 29056} | bert.sizes(24, 1024),
}

TEXT: dict[str, Any] = bert.TEXT

OBJECTIVES = ("mlm+sop", "mlm")

PRETRAINING: dict[str, Any] = bert.PRETRAINING | {"masking": "ngram"}

FINE_TUNING_RATES = {1024: 1e-5}

HUGGING_FACE_CLASS = "MegatronBert"
HUGGING_FACE_PREFIX = bert.HUGGING_FACE_PREFIX
HUGGING_FACE_CONFIG = {
    ours: theirs
    for ours, theirs in bert.HUGGING_FACE_CONFIG.items()
    if ours != "classifier_dropout"
}
HUGGING_FACE_DEFAULTS = bert.HUGGING_FACE_DEFAULTS | {
    "vocab_size": 29056,
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
}

HUGGING_FACE = (
    *((kind, ours, f"bert.{theirs}") for kind, ours, theirs in bert.EMBEDDINGS[:3]),
    *in_layers(
        "bert.encoder.layer.{i}.",
        *(row for row in bert.PARTS_OF_LAYER if row[0] == "dense"),
        ("norm", "attention_layer_norm", "attention.ln"),
        ("norm", "output_layer_norm", "ln"),
    ),
    ("norm", "encoder/final_layer_norm", "bert.encoder.ln"),
    ("dense", "encoder/pooler/dense", "bert.pooler.dense"),
)

HUGGING_FACE_TASKS = {
    task: head._replace(dropout="") for task, head in bert.HUGGING_FACE_TASKS.items()
}
