"""XLM-RoBERTa (Conneau et al. 2019, https://arxiv.org/abs/1911.02116): multilingual RoBERTa."""

from typing import Any

from keras_bert.families import bert, roberta

TRAITS: dict[str, Any] = roberta.TRAITS | {"family": "xlm-roberta"}

PRESETS: dict[str, dict[str, Any]] = {
    "xlm_roberta_base": TRAITS | {"vocabulary_size": 250002} | bert.sizes(12, 768),
    "xlm_roberta_large": TRAITS | {"vocabulary_size": 250002} | bert.sizes(24, 1024),
}

TEXT: dict[str, Any] = roberta.TEXT | {"tokenizer": "sentencepiece"}

HUGGING_FACE_CLASS = "XLMRoberta"
HUGGING_FACE_DEFAULTS = roberta.HUGGING_FACE_DEFAULTS | {"vocab_size": 30522}


def __getattr__(name: str) -> Any:
    return getattr(roberta, name)  # everything else is as in RoBERTa
