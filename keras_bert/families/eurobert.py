"""EuroBERT (Boizard et al. 2025, https://arxiv.org/abs/2503.05500).

The architecture of Llama without its causal mask: RMS normalization before each block, rotary
positions, gated feed-forward blocks (SwiGLU), keys and values for groups of heads, no biases. The
sizes and rates are from memory.
"""

from collections.abc import Mapping
from typing import Any

from keras_bert.families import HeadSpec, bert, in_layers, jina_embeddings_v3

TRAITS: dict[str, Any] = {
    "family": "eurobert",
    "activation": "silu",
    "layer_norm_epsilon": 1e-5,
    "max_positions": 8192,
    "position_input": False,
    "num_segments": 0,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "pooler": False,
    "classifier_activation": "gelu",
    "pre_norm": True,
    "embedding_norm": False,
    "rms_norm": True,
    "attention_bias": False,
    "intermediate_bias": False,
    "output_bias": False,
    "gated": True,
    "rotary_base": 250000.0,
    "masked_lm_transform": False,
}

PRESETS: dict[str, dict[str, Any]] = {
    name: TRAITS
    | {"vocabulary_size": 128256, "hidden_size": hidden, "num_layers": layers}
    | {"num_heads": heads, "num_key_value_heads": fewer, "intermediate_size": inner}
    for name, (layers, hidden, heads, fewer, inner) in {
        "eurobert_210m": (12, 768, 12, 12, 3072),
        "eurobert_610m": (26, 1152, 18, 6, 4096),
        "eurobert_2_1b": (32, 2304, 18, 6, 6144),
    }.items()
}

TEXT: dict[str, Any] = bert.TEXT | {
    "tokenizer": "byte_pair",
    "pattern": "llama3",
    "special_tokens": {
        "pad": "<|end_of_text|>",  # has the id that is transformers' pad_token_id
        "unknown": "<|end_of_text|>",
        "cls": "<|begin_of_text|>",
        "separator": "<|end_of_text|>",
        "mask": "<|mask|>",
    },
}

OBJECTIVES = ("mlm",)

PRETRAINING: dict[str, Any] = bert.PRETRAINING | {"masking_rate": 0.5}

FINE_TUNING_RATES = {768: 3e-5, 1152: 2e-5, 2304: 1e-5}

HUGGING_FACE_CLASS = "EuroBert"
HUGGING_FACE_PREFIX = "model."
HUGGING_FACE_CONFIG = {
    **{name: bert.HUGGING_FACE_CONFIG[name] for name in ("vocabulary_size", *bert.sizes(1, 64))},
    "num_key_value_heads": "num_key_value_heads",
    "activation": "hidden_act",
    "layer_norm_epsilon": "rms_norm_eps",
    "max_positions": "max_position_embeddings",
    "attention_bias": "attention_bias",
    "rotary_base": "rope_parameters",
    **{name: name for name in ("attention_dropout", "initializer_range")},
}
HUGGING_FACE_DEFAULTS = {
    **{
        HUGGING_FACE_CONFIG[ours]: value
        for ours, value in PRESETS["eurobert_210m"].items()
        if ours in HUGGING_FACE_CONFIG and ours not in ("num_key_value_heads", "rotary_base")
    },
    "initializer_range": 0.02,
    "pad_token_id": 128001,
    "tie_word_embeddings": False,
    "classifier_pooling": "late",
}
HUGGING_FACE_SECOND_NAMES = {"clf_pooling": "classifier_pooling"}  # in the authors' code
HUGGING_FACE_FIXED = {"mlp_bias": False}
HUGGING_FACE_SPECIAL_TOKENS = {
    "bos_token_id": "cls",
    "eos_token_id": "separator",
    "mask_token_id": "mask",
}


def from_hugging_face(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts transformers' configuration like `jina_embeddings_v3.from_hugging_face`."""
    size = values["hidden_size"] // values["num_attention_heads"]
    if values.get("head_dim", size) != size:
        raise ValueError(f"head_dim {values['head_dim']} is not supported, only {size} is")
    return jina_embeddings_v3.from_hugging_face(values, base=10000.0)


to_hugging_face = jina_embeddings_v3.to_hugging_face

HUGGING_FACE = (
    ("table", "encoder/embeddings/token_embedding", "model.embed_tokens"),
    *in_layers(
        "model.layers.{i}.",
        ("dense", "attention/query", "self_attn.q_proj"),
        ("dense", "attention/key", "self_attn.k_proj"),
        ("dense", "attention/value", "self_attn.v_proj"),
        ("dense", "attention/output", "self_attn.o_proj"),
        ("rms_norm", "attention_layer_norm", "input_layernorm"),
        ("dense", "intermediate", "mlp.gate_proj"),
        ("dense", "gate", "mlp.up_proj"),
        ("dense", "output", "mlp.down_proj"),
        ("rms_norm", "output_layer_norm", "post_attention_layernorm"),
    ),
    ("rms_norm", "encoder/final_layer_norm", "model.norm"),
)
_MASKED_LM = (
    ("table", "masked_lm/decoder", "lm_head"),
    ("vector", "masked_lm/bias", "lm_head.bias"),  # in no file, because mlp_bias is false
)
_LOGITS = ("dense", "classifier/logits", "classifier")
_CLASSIFIER = (("dense", "pooling/hidden", "dense"), ("dense", "classifier/hidden", "dense"))

HUGGING_FACE_TASKS = {
    "encoder": HeadSpec("Model"),
    "masked_lm": HeadSpec("ForMaskedLM", _MASKED_LM),
    "classifier": HeadSpec(
        "ForSequenceClassification",
        (*_CLASSIFIER, _LOGITS),
        pooling="classifier_pooling",
        poolings={"late": "late", "bos": "first", "mean": "mean"},
    ),
    "token_classifier": HeadSpec("ForTokenClassification", (_LOGITS,)),
}
