"""ModernBERT (Warner et al. 2024, https://arxiv.org/abs/2412.13663).

Normalization before each block, rotary positions, gated feed-forward blocks (GEGLU), no biases. Two
of three layers attend to near tokens only. Values are from github.com/AnswerDotAI/ModernBERT. Rates
for fine-tuning are from memory. transformers has dropout inside the feed-forward block, not after.
"""

from collections.abc import Mapping
from typing import Any

from keras_bert.families import HeadSpec, bert, in_layers, rotary_base

_BASES = {"full_attention": 160000.0, "sliding_attention": 10000.0}

TRAITS: dict[str, Any] = {
    "family": "modernbert",
    "layer_norm_epsilon": 1e-5,
    "max_positions": 8192,
    "position_input": False,
    "num_segments": 0,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "pooler": False,
    "classifier_activation": "gelu",
    "pre_norm": True,
    "norm_bias": False,
    "attention_bias": False,
    "intermediate_bias": False,
    "output_bias": False,
    "gated": True,
    "rotary_base": _BASES["full_attention"],
    "local_rotary_base": _BASES["sliding_attention"],
    "attention_window": 64,
    "global_interval": 3,
    "prediction_head": True,
    "head_bias": False,
}

PRESETS: dict[str, dict[str, Any]] = {
    name: TRAITS | {"vocabulary_size": 50368} | bert.sizes(*size) | {"intermediate_size": inner}
    for name, (size, inner) in {
        "modernbert_base": ((22, 768), 1152),
        "modernbert_large": ((28, 1024), 2624),
    }.items()
}

TEXT: dict[str, Any] = bert.TEXT | {"tokenizer": "byte_pair"}

OBJECTIVES = ("mlm",)

PRETRAINING: dict[str, Any] = bert.PRETRAINING | {"masking_rate": 0.3, "packed": True}

FINE_TUNING_RATES = {768: 5e-5, 1024: 3e-5}

HUGGING_FACE_CLASS = "ModernBert"
HUGGING_FACE_PREFIX = "model."
HUGGING_FACE_CONFIG = {
    **{name: bert.HUGGING_FACE_CONFIG[name] for name in ("vocabulary_size", *bert.sizes(1, 64))},
    "activation": "hidden_activation",
    "layer_norm_epsilon": "norm_eps",
    "max_positions": "max_position_embeddings",
    "norm_bias": "norm_bias",
    "attention_bias": "attention_bias",
    "intermediate_bias": "mlp_bias",
    "output_bias": "bias of mlp.Wo",
    "rotary_base": "full_attention",
    "local_rotary_base": "sliding_attention",
    "attention_window": "sliding_window",
    "global_interval": "global_attn_every_n_layers",
    "head_bias": "classifier_bias",
    "hidden_dropout": "mlp_dropout",
    **{name: name for name in ("classifier_activation", "classifier_dropout")},
    **{name: name for name in ("attention_dropout", "initializer_range")},
}
HUGGING_FACE_DEFAULTS = {
    **{
        HUGGING_FACE_CONFIG[ours]: value
        for ours, value in PRESETS["modernbert_base"].items()
        if ours in HUGGING_FACE_CONFIG
    },
    **{"hidden_activation": "gelu", "initializer_range": 0.02},
    **{"classifier_dropout": 0.0, "local_attention": 128},
}

HUGGING_FACE_SPECIAL_TOKENS = {  # fields of ids, and the roles of the tokens
    **dict.fromkeys(("bos_token_id", "cls_token_id"), "cls"),
    **dict.fromkeys(("eos_token_id", "sep_token_id"), "separator"),
}


def from_hugging_face(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the values of `config.json` to values of an `EncoderConfig`, under their names.

    Releases before 5 have `global_rope_theta` and `local_rope_theta` in place of `rope_parameters`,
    and `global_attn_every_n_layers` in place of `layer_types`.

    Raises:
        ValueError: if an `EncoderConfig` cannot express the configuration.
    """
    bases = {}
    for kind, earlier in (("full", "global"), ("sliding", "local")):
        name = f"{kind}_attention"
        default = values.get(f"{earlier}_rope_theta") or _BASES[name]
        bases[name] = rotary_base(values, default, name)
    interval, types = values["global_attn_every_n_layers"], values.get("layer_types")
    if types is not None:
        interval = next((n for n in range(len(types) + 1) if _kinds(len(types), n) == types), None)
        if interval is None or len(types) != values["num_hidden_layers"]:
            raise ValueError(f"layer_types {types} has no full_attention every n layers")
    return {
        **values,
        **bases,
        "global_attn_every_n_layers": interval,
        "sliding_window": values["local_attention"] // 2,
        "bias of mlp.Wo": values["mlp_bias"],
    }


def to_hugging_face(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the configuration with transformers' values.

    Raises:
        ValueError: if transformers cannot express the configuration.
    """
    values = dict(values)
    full, sliding = (values.pop(name) for name in _BASES)
    interval, window = values.pop("global_attn_every_n_layers"), values.pop("sliding_window")
    if values.pop("bias of mlp.Wo") != values["mlp_bias"]:
        raise ValueError("only one of intermediate_bias and output_bias is set")
    return {
        **values,
        "embedding_dropout": values["mlp_dropout"],
        "local_attention": 2 * window,
        "layer_types": _kinds(values["num_hidden_layers"], interval if window else 1),
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": base}
            for kind, base in zip(_BASES, (full, sliding or full), strict=True)
        },
    }


def _kinds(num_layers: int, interval: int) -> list[str]:
    """Returns the kind of each layer's attention."""
    kinds = [*_BASES]
    return [kinds[not interval or i % interval > 0] for i in range(num_layers)]


HUGGING_FACE = (
    ("table", "encoder/embeddings/token_embedding", "model.embeddings.tok_embeddings"),
    ("norm", "encoder/embeddings/layer_norm", "model.embeddings.norm"),
    *in_layers(
        "model.layers.{i}.",
        ("dense_1_of_3", "attention/query", "attn.Wqkv"),
        ("dense_2_of_3", "attention/key", "attn.Wqkv"),
        ("dense_3_of_3", "attention/value", "attn.Wqkv"),
        ("dense", "attention/output", "attn.Wo"),
        ("norm", "attention_layer_norm", "attn_norm"),
        ("dense_1_of_2", "intermediate", "mlp.Wi"),
        ("dense_2_of_2", "gate", "mlp.Wi"),
        ("dense", "output", "mlp.Wo"),
        ("norm", "output_layer_norm", "mlp_norm"),
    ),
    ("norm", "encoder/final_layer_norm", "model.final_norm"),
)
_MASKED_LM = (
    ("dense", "masked_lm/transform", "head.dense"),
    ("norm", "masked_lm/layer_norm", "head.norm"),
    ("vector", "masked_lm/bias", "decoder.bias"),
    ("table", "masked_lm/decoder", "decoder"),
)


def _head(name: str) -> tuple[tuple[str, str, str], ...]:
    return (
        ("dense", f"{name}/hidden", "head.dense"),
        ("norm", f"{name}/layer_norm", "head.norm"),
        ("dense", f"{name}/logits", "classifier"),
    )


_CLASSIFIER, _DROPOUT, _POOLING = _head("classifier"), "classifier_dropout", "classifier_pooling"

HUGGING_FACE_TASKS = {
    "encoder": HeadSpec("Model"),
    "classifier": HeadSpec(
        "ForSequenceClassification", _CLASSIFIER, dropout=_DROPOUT, pooling=_POOLING
    ),
    "masked_lm": HeadSpec(
        "ForMaskedLM",
        _MASKED_LM,
        arguments={"activation": "gelu"},
        fixed={"classifier_activation": "gelu", "decoder_bias": True},
    ),
    "multiple_choice": HeadSpec(
        "ForMultipleChoice", _CLASSIFIER, dropout=_DROPOUT, fixed={_POOLING: "cls"}
    ),
    "span_classifier": HeadSpec("ForQuestionAnswering", _head("span"), dropout=_DROPOUT),
    "token_classifier": HeadSpec("ForTokenClassification", _CLASSIFIER, dropout=_DROPOUT),
}
