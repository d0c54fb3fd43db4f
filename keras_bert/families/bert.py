"""BERT (Devlin et al. 2018) and Google's compact models (Turc et al. 2019).

https://arxiv.org/abs/1810.04805 and https://arxiv.org/abs/1908.08962; sizes as published in
github.com/google-research/bert. `vocabulary_size` is that of the English uncased vocabulary.
"""

from typing import Any

_SIZES = {  # layers, hidden size
    "bert_tiny": (2, 128),
    "bert_mini": (4, 256),
    "bert_small": (4, 512),
    "bert_medium": (8, 512),
    "bert_base": (12, 768),
    "bert_large": (24, 1024),
}

PRESETS: dict[str, dict[str, Any]] = {
    name: {
        "family": "bert",
        "vocabulary_size": 30522,
        "num_layers": num_layers,
        "hidden_size": hidden_size,
        "num_heads": hidden_size // 64,
        "intermediate_size": 4 * hidden_size,
    }
    for name, (num_layers, hidden_size) in _SIZES.items()
}

# Names of the classes and of the encoder's tensors in Hugging Face's transformers.
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
    "hidden_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "initializer_range": "initializer_range",
}

# What each of our tensors is called elsewhere. A row is kind, our name and theirs; a format knows
# how it spells the tensors of a kind (`keras_bert.checkpoints.mapping`). {i} counts the layers.
HUGGING_FACE = (
    ("table", "encoder/embeddings/token_embedding", "bert.embeddings.word_embeddings"),
    ("table", "encoder/embeddings/segment_embedding", "bert.embeddings.token_type_embeddings"),
    ("table", "encoder/embeddings/position_embedding", "bert.embeddings.position_embeddings"),
    ("norm", "encoder/embeddings/layer_norm", "bert.embeddings.LayerNorm"),
    *(
        (kind, f"encoder/layer_{{i}}/{ours}", f"bert.encoder.layer.{{i}}.{theirs}")
        for kind, ours, theirs in (
            ("dense", "attention/query", "attention.self.query"),
            ("dense", "attention/key", "attention.self.key"),
            ("dense", "attention/value", "attention.self.value"),
            ("dense", "attention/output", "attention.output.dense"),
            ("norm", "attention_layer_norm", "attention.output.LayerNorm"),
            ("dense", "intermediate", "intermediate.dense"),
            ("dense", "output", "output.dense"),
            ("norm", "output_layer_norm", "output.LayerNorm"),
        )
    ),
    ("dense", "encoder/pooler/dense", "bert.pooler.dense"),
    ("dense", "masked_lm/transform", "cls.predictions.transform.dense"),
    ("norm", "masked_lm/layer_norm", "cls.predictions.transform.LayerNorm"),
    ("vector", "masked_lm/bias", "cls.predictions.bias"),
    ("table", "masked_lm/decoder", "cls.predictions.decoder"),
    ("dense", "next_sentence/logits", "cls.seq_relationship"),
    ("dense", "classifier/logits", "classifier"),
    ("dense", "span/logits", "qa_outputs"),
)
