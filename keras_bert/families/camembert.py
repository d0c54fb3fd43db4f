"""CamemBERT (Martin et al. 2019, https://arxiv.org/abs/1911.03894): RoBERTa for French."""

from typing import Any

from keras_bert.families import bert, roberta

TRAITS: dict[str, Any] = roberta.TRAITS | {"family": "camembert"}

PRESETS: dict[str, dict[str, Any]] = {
    "camembert_base": TRAITS | {"vocabulary_size": 32005} | bert.sizes(12, 768),
    "camembert_large": TRAITS | {"vocabulary_size": 32005} | bert.sizes(24, 1024),
}

TEXT: dict[str, Any] = roberta.TEXT | {"tokenizer": "sentencepiece"}

PRETRAINING: dict[str, Any] = roberta.PRETRAINING | {"masking": "word"}

FINE_TUNING_RATES = roberta.FINE_TUNING_RATES

HUGGING_FACE_CLASS = "Camembert"
HUGGING_FACE_DEFAULTS = roberta.HUGGING_FACE_DEFAULTS | {"vocab_size": 30522}


def __getattr__(name: str) -> Any:
    return getattr(roberta, name)  # everything else is as in RoBERTa
