"""CamemBERT (Martin et al. 2019, https://arxiv.org/abs/1911.03894): RoBERTa for French."""

from typing import Any

from keras_bert.families import bert, roberta
from keras_bert.families.roberta import (  # noqa: F401
    HUGGING_FACE,
    HUGGING_FACE_CONFIG,
    HUGGING_FACE_FIXED,
    HUGGING_FACE_PREFIX,
    HUGGING_FACE_TASKS,
    OBJECTIVES,
    PRETRAINING,
    from_hugging_face,
    to_hugging_face,
)

TRAITS: dict[str, Any] = roberta.TRAITS | {"family": "camembert"}

PRESETS: dict[str, dict[str, Any]] = {
    "camembert_base": TRAITS | {"vocabulary_size": 32005} | bert.sizes(12, 768),
    "camembert_large": TRAITS | {"vocabulary_size": 32005} | bert.sizes(24, 1024),
}

TEXT: dict[str, Any] = roberta.TEXT | {"tokenizer": "sentencepiece"}

HUGGING_FACE_CLASS = "Camembert"
